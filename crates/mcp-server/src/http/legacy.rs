//! Revisions up to 2025-11-25, with sessions.

mod batch;

use std::sync::Arc;

use axum::body::Bytes;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::Response;
use pillion_mcp_client::{ProtocolVersion, RpcError};
use serde_json::Map;
use serde_json::value::RawValue;

use super::headers::{self, SESSION_ID_HEADER};
use super::stream::{body, body_after_silence, body_while_valid, wait_before_silence};
use super::{
    Exchange, accepted_response, error_response, error_response_without_id, event_stream_response,
    json_response,
};
use crate::sessions::{Responses, Session};
use crate::source::{MessageListener, MessageSource, PendingResponse};
use crate::stateful::{
    RunningSessionRequest, concerns_session, handle_message, handle_session_request, initialize,
};
use crate::stateless::VERSION_HEADER;
pub(super) use batch::post as batch;
use pillion_gateway::access::TokenValidity;
use pillion_gateway::calling_client::message::{self, Inbound, Request};

/// The error code for a request without a session. Other MCP servers use the same code.
const NO_SESSION_CODE: i64 = -32000;
const SESSION_NOT_FOUND_CODE: i64 = -32001;

pub(super) async fn post(exchange: &Exchange<'_>, inbound: Inbound) -> Response {
    if let Inbound::Request(request) = &inbound
        && request.method == "initialize"
    {
        return match initialize(&exchange.caller, request) {
            Ok((session, result)) => {
                exchange.caller.mcp.state.sessions.insert(&session);
                session_response(&session, request, result)
            }
            Err(error) => error_response(StatusCode::BAD_REQUEST, Some(&request.id), error),
        };
    }
    if headers::session_id(exchange.headers).is_none() {
        return post_without_session(exchange, inbound).await;
    }
    let session = match find_session(exchange) {
        Ok(session) => session,
        Err(response) => return response,
    };
    match inbound {
        Inbound::Request(request) => respond_to_request(exchange, &session, request).await,
        message => {
            handle_message(&session, message);
            accepted_response()
        }
    }
}

/// Handles a message without a session ID, which some clients do not send. A request that does not
/// concern a session is handled in a temporary session without capabilities.
async fn post_without_session(exchange: &Exchange<'_>, inbound: Inbound) -> Response {
    let session = match create_temporary_session(exchange) {
        Ok(session) => session,
        Err(response) => return response,
    };
    match inbound {
        Inbound::Request(request) if concerns_session(&request.method) => {
            let error = RpcError::new(NO_SESSION_CODE, missing_session_reason(&request.method));
            error_response(StatusCode::BAD_REQUEST, Some(&request.id), error)
        }
        Inbound::Request(request) => respond_to_request(exchange, &session, request).await,
        Inbound::Notification { method, .. } if method == "notifications/cancelled" => {
            let reason = missing_session_reason(&method);
            error_response_without_id(StatusCode::BAD_REQUEST, NO_SESSION_CODE, &reason)
        }
        Inbound::Notification { .. } => accepted_response(),
        Inbound::Response { .. } => {
            let reason = missing_session_reason("A response");
            error_response_without_id(StatusCode::BAD_REQUEST, NO_SESSION_CODE, &reason)
        }
    }
}

fn missing_session_reason(subject: &str) -> String {
    format!(
        "{subject} requires a session: send initialize, then send the header Mcp-Session-Id from \
         the response to initialize"
    )
}

/// Returns a temporary session for one request, with the revision that the request names. If the
/// request names no revision, the session has the default revision of MCP (2025-06-18, "Protocol
/// Version Header").
#[expect(clippy::result_large_err, reason = "the error is the response itself")]
fn create_temporary_session(exchange: &Exchange<'_>) -> Result<Arc<Session>, Response> {
    let version = read_version(exchange)?.unwrap_or(ProtocolVersion::V2025_03_26);
    let owner = exchange.caller.owner();
    Ok(Arc::new(Session::new(version, Map::new(), owner)))
}

fn session_response(session: &Session, request: &Request, result: Box<RawValue>) -> Response {
    let message = message::response(Some(&request.id), &Ok(result));
    let mut response = json_response(StatusCode::OK, message);
    if let Ok(id) = HeaderValue::from_str(&session.id.to_string()) {
        response.headers_mut().insert(SESSION_ID_HEADER, id);
    }
    response
}

/// Returns the session whose ID is in the request's header.
#[expect(clippy::result_large_err, reason = "the error is the response itself")]
fn find_session(exchange: &Exchange<'_>) -> Result<Arc<Session>, Response> {
    let Some(id) = headers::session_id(exchange.headers) else {
        let reason = "The header Mcp-Session-Id is missing: send initialize first";
        let response = error_response_without_id(StatusCode::BAD_REQUEST, NO_SESSION_CODE, reason);
        return Err(response);
    };
    let owner = exchange.caller.owner();
    let session = id
        .to_str()
        .ok()
        .and_then(|id| exchange.caller.mcp.state.sessions.get(id, &owner));
    let Some(session) = session else {
        let (status, code) = (StatusCode::NOT_FOUND, SESSION_NOT_FOUND_CODE);
        return Err(error_response_without_id(status, code, "Session not found"));
    };
    read_version(exchange)?;
    Ok(session)
}

/// Returns the revision that the request's header names, if there is one.
#[expect(clippy::result_large_err, reason = "the error is the response itself")]
fn read_version(exchange: &Exchange<'_>) -> Result<Option<ProtocolVersion>, Response> {
    let Some(version) = exchange.headers.get(VERSION_HEADER) else {
        return Ok(None);
    };
    let version = version.to_str().ok().and_then(|text| text.parse().ok());
    version.map(Some).ok_or_else(|| {
        let reason = "Unsupported protocol version in the header MCP-Protocol-Version: send the \
                      version from the response to initialize";
        error_response_without_id(StatusCode::BAD_REQUEST, NO_SESSION_CODE, reason)
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
    let (caller, responses) = (&exchange.caller, Responses::PerRequest);
    let start_result =
        RunningSessionRequest::start(caller, session, request, responses, can_stream);
    match start_result {
        Ok(running_request) => {
            respond(
                exchange,
                running_request,
                RunningSessionRequest::is_finished,
            )
            .await
        }
        Err(error) => error_response(StatusCode::BAD_REQUEST, Some(&id), error),
    }
}

/// Returns the messages of `source` as an HTTP response. The response is JSON if the only message
/// arrives before the timeout of [`wait_before_silence`], and [`prefers_json`] returns `true`.
/// Otherwise, the response is an event stream.
async fn respond<S: MessageSource>(
    exchange: &Exchange<'_>,
    mut source: S,
    is_finished: fn(&S) -> bool,
) -> Response {
    match wait_before_silence(exchange.headers, source.next()).await {
        None => event_stream_response(body_after_silence(source, TokenValidity::default())),
        // Returns an empty event stream for a cancelled request, which has no response.
        Some(None) => event_stream_response(body(None, source)),
        Some(Some(only_message)) if is_finished(&source) && prefers_json(exchange.headers) => {
            json_response(StatusCode::OK, only_message)
        }
        Some(Some(first_message)) => event_stream_response(body(Some(first_message), source)),
    }
}

/// Returns whether to send a single message as JSON: `true` unless the client accepts only event
/// streams. A client without an `Accept` header can read JSON.
fn prefers_json(headers: &HeaderMap) -> bool {
    headers::accepts_json(headers) || !headers::accepts_stream(headers)
}

/// Opens the stream of a session for messages that belong to no request.
pub(super) fn get(exchange: &Exchange<'_>) -> Response {
    if !headers::accepts_stream(exchange.headers) {
        let reason = "The response to GET is text/event-stream: the header Accept must allow it";
        return error_response_without_id(StatusCode::NOT_ACCEPTABLE, NO_SESSION_CODE, reason);
    }
    let session = match find_session(exchange) {
        Ok(session) => session,
        Err(response) => return response,
    };
    let listener = MessageListener::for_session(&exchange.caller, &session);
    let validity = exchange.token_validity.clone();
    event_stream_response(body_while_valid(None, listener, validity))
}

/// Ends the session that the header names.
pub(super) fn delete(exchange: &Exchange<'_>) -> Response {
    match find_session(exchange) {
        Ok(session) => {
            exchange.caller.mcp.state.sessions.close(&session);
            json_response(StatusCode::OK, Bytes::new())
        }
        Err(response) => response,
    }
}
