//! Revisions up to 2025-11-25, with sessions.

mod batch;

use std::sync::Arc;

use axum::body::Bytes;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::Response;
use pillion_mcp_client::{ProtocolVersion, RpcError};
use serde_json::Map;
use serde_json::value::RawValue;

use super::headers::{self, SESSION_ID};
use super::stream::{before_silence, body, body_after_silence, body_while_valid};
use super::{Exchange, accepted, event_stream, failed, invalid, json as json_response};
use crate::sessions::{Responses, Session};
use crate::source::{MessageListener, PendingResponse, Source};
use crate::stateful::{
    Answering, concerns_session, handle_message, handle_session_request, initialize,
};
use crate::stateless::VERSION;
pub(super) use batch::post as batch;
use pillion_gateway::access::TokenValidity;
use pillion_gateway::calling_client::message::{self, Inbound, Request};

/// The error code for a request without a session, as other servers use it.
const NO_SESSION: i64 = -32000;
const SESSION_NOT_FOUND: i64 = -32001;

pub(super) async fn post(exchange: &Exchange<'_>, inbound: Inbound) -> Response {
    if let Inbound::Request(request) = &inbound
        && request.method == "initialize"
    {
        return match initialize(&exchange.caller, request) {
            Ok((session, result)) => {
                exchange.caller.mcp.state.sessions.insert(&session);
                opened(&session, request, result)
            }
            Err(error) => failed(StatusCode::BAD_REQUEST, Some(&request.id), error),
        };
    }
    if headers::session_id(exchange.headers).is_none() {
        return post_without_session(exchange, inbound).await;
    }
    let session = match session(exchange) {
        Ok(session) => session,
        Err(response) => return response,
    };
    match inbound {
        Inbound::Request(request) => respond_to_request(exchange, &session, request).await,
        other => {
            handle_message(&session, other);
            accepted()
        }
    }
}

/// Handles a message without a session id, which some clients do not send. A request that does not
/// concern a session is handled in a temporary session without capabilities.
async fn post_without_session(exchange: &Exchange<'_>, inbound: Inbound) -> Response {
    let session = match default_session(exchange) {
        Ok(session) => session,
        Err(response) => return response,
    };
    match inbound {
        Inbound::Request(request) if concerns_session(&request.method) => {
            let error = RpcError::new(NO_SESSION, needs_session(&request.method));
            failed(StatusCode::BAD_REQUEST, Some(&request.id), error)
        }
        Inbound::Request(request) => respond_to_request(exchange, &session, request).await,
        Inbound::Notification { method, .. } if method == "notifications/cancelled" => {
            let reason = needs_session(&method);
            invalid(StatusCode::BAD_REQUEST, NO_SESSION, &reason)
        }
        Inbound::Notification { .. } => accepted(),
        Inbound::Response { .. } => {
            let reason = needs_session("A response");
            invalid(StatusCode::BAD_REQUEST, NO_SESSION, &reason)
        }
    }
}

fn needs_session(what: &str) -> String {
    format!(
        "{what} needs a session: send initialize, and repeat the header Mcp-Session-Id of its \
         response"
    )
}

/// Returns a temporary session for one request, with the revision that the request names. If the
/// request names none, MCP sets the revision (2025-06-18, "Protocol Version Header").
#[expect(clippy::result_large_err, reason = "the error is the response itself")]
fn default_session(exchange: &Exchange<'_>) -> Result<Arc<Session>, Response> {
    let version = version(exchange)?.unwrap_or(ProtocolVersion::V2025_03_26);
    let owner = exchange.caller.owner();
    Ok(Arc::new(Session::new(version, Map::new(), owner)))
}

fn opened(session: &Session, request: &Request, result: Box<RawValue>) -> Response {
    let message = message::response(Some(&request.id), &Ok(result));
    let mut response = json_response(StatusCode::OK, message);
    if let Ok(id) = HeaderValue::from_str(&session.id.to_string()) {
        response.headers_mut().insert(SESSION_ID, id);
    }
    response
}

/// Returns the session whose id is in the request's header.
#[expect(clippy::result_large_err, reason = "the error is the response itself")]
fn session(exchange: &Exchange<'_>) -> Result<Arc<Session>, Response> {
    let Some(id) = headers::session_id(exchange.headers) else {
        let reason = "The header Mcp-Session-Id is missing: send initialize first";
        return Err(invalid(StatusCode::BAD_REQUEST, NO_SESSION, reason));
    };
    let owner = exchange.caller.owner();
    let session = id
        .to_str()
        .ok()
        .and_then(|id| exchange.caller.mcp.state.sessions.get(id, &owner));
    let Some(session) = session else {
        let reason = "Session not found";
        return Err(invalid(StatusCode::NOT_FOUND, SESSION_NOT_FOUND, reason));
    };
    version(exchange)?;
    Ok(session)
}

/// Returns the revision that the request's header names, if there is one.
#[expect(clippy::result_large_err, reason = "the error is the response itself")]
fn version(exchange: &Exchange<'_>) -> Result<Option<ProtocolVersion>, Response> {
    let Some(version) = exchange.headers.get(VERSION) else {
        return Ok(None);
    };
    let version = version.to_str().ok().and_then(|it| it.parse().ok());
    version.map(Some).ok_or_else(|| {
        let reason = "Unsupported protocol version";
        invalid(StatusCode::BAD_REQUEST, NO_SESSION, reason)
    })
}

async fn respond_to_request(
    exchange: &Exchange<'_>,
    session: &Arc<Session>,
    request: Request,
) -> Response {
    if concerns_session(&request.method) {
        let caller = exchange.caller.clone();
        let session = Arc::clone(session);
        let response = PendingResponse::new(async move {
            let outcome = handle_session_request(&caller, &session, &request).await;
            Some(message::response(Some(&request.id), &outcome))
        });
        return respond(exchange, response, PendingResponse::is_finished).await;
    }
    let can_stream = headers::accepts_stream(exchange.headers);
    let id = request.id.clone();
    let answering = Answering::start(
        &exchange.caller,
        session,
        request,
        Responses::Separate,
        can_stream,
    );
    match answering {
        Ok(answering) => respond(exchange, answering, Answering::is_finished).await,
        Err(error) => failed(StatusCode::BAD_REQUEST, Some(&id), error),
    }
}

/// Returns the messages of `source` as a response: JSON if there is only one message and it arrives
/// soon, or else an event stream.
async fn respond<S: Source>(
    exchange: &Exchange<'_>,
    mut source: S,
    is_finished: fn(&S) -> bool,
) -> Response {
    match before_silence(exchange.headers, source.next()).await {
        None => event_stream(body_after_silence(source, TokenValidity::default())),
        // A cancelled request has no response.
        Some(None) => event_stream(body(None, source)),
        Some(Some(last)) if is_finished(&source) && prefers_json(exchange.headers) => {
            json_response(StatusCode::OK, last)
        }
        Some(Some(first)) => event_stream(body(Some(first), source)),
    }
}

/// Returns whether a single message is sent as JSON, which is so unless the client accepts only
/// event streams. A client without an `Accept` header can read JSON.
fn prefers_json(headers: &HeaderMap) -> bool {
    headers::accepts_json(headers) || !headers::accepts_stream(headers)
}

/// Opens the stream of a session for messages that belong to no request.
pub(super) fn get(exchange: &Exchange<'_>) -> Response {
    if !headers::accepts_stream(exchange.headers) {
        let reason = "The response to GET is text/event-stream: the header Accept must allow it";
        return invalid(StatusCode::NOT_ACCEPTABLE, NO_SESSION, reason);
    }
    let session = match session(exchange) {
        Ok(session) => session,
        Err(response) => return response,
    };
    let listener = MessageListener::for_session(&exchange.caller, &session);
    event_stream(body_while_valid(
        None,
        listener,
        exchange.token_validity.clone(),
    ))
}

/// Ends the session that the header names.
pub(super) fn delete(exchange: &Exchange<'_>) -> Response {
    match session(exchange) {
        Ok(session) => {
            exchange.caller.mcp.state.sessions.close(&session);
            json_response(StatusCode::OK, Bytes::new())
        }
        Err(response) => response,
    }
}
