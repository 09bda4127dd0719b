//! Revisions up to 2025-11-25, with sessions.

use std::sync::Arc;

use axum::body::Bytes;
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use pillion_core::json_values;
use pillion_mcp_client::{ProtocolVersion, RpcError};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::headers::{self, SESSION_ID};
use super::stream::{body, body_while_valid};
use super::{Caller, Exchange, accepted, event_stream, failed, invalid, json as json_response};
use crate::McpServer;
use crate::sessions::Session;
use crate::source::{Listener, Source};
use crate::stateful::{Answering, handle_message, initialize, of_session};
use crate::stateless::VERSION;
use pillion_gateway::calling_client::message::{self, INVALID_REQUEST, Inbound, Request};

/// The error code for a request without a session, as other servers use it.
const NO_SESSION: i64 = -32000;
const SESSION_NOT_FOUND: i64 = -32001;

/// Maximum number of messages in one batch. Only revision 2025-03-26 has batches.
const MAX_IN_BATCH: usize = 100;

pub(super) async fn post(exchange: &Exchange<'_>, inbound: Inbound) -> Response {
    if let Inbound::Request(request) = &inbound
        && request.method == "initialize"
    {
        return match initialize(&exchange.caller, request) {
            Ok((session, result)) => {
                exchange.mcp.state.sessions.insert(&session);
                opened(&session, request, result)
            }
            Err(error) => failed(StatusCode::BAD_REQUEST, Some(&request.id), error),
        };
    }
    let session = match session(exchange) {
        Ok(session) => session,
        Err(response) => return response,
    };
    match inbound {
        Inbound::Request(request) => answer(exchange, &session, request).await,
        other => {
            handle_message(&session, other);
            accepted()
        }
    }
}

fn opened(session: &Session, request: &Request, result: Box<RawValue>) -> Response {
    let message = message::response(Some(&request.id), &Ok(result));
    let mut response = json_response(StatusCode::OK, message);
    if let Ok(id) = HeaderValue::from_str(&session.id.to_string()) {
        response.headers_mut().insert(SESSION_ID, id);
    }
    response
}

/// Returns the session that the request names.
#[expect(clippy::result_large_err, reason = "the error is the answer itself")]
fn session(exchange: &Exchange<'_>) -> Result<Arc<Session>, Response> {
    let Some(id) = exchange.headers.get(SESSION_ID) else {
        let reason = "The header Mcp-Session-Id is missing: send initialize first";
        return Err(invalid(StatusCode::BAD_REQUEST, NO_SESSION, reason));
    };
    let owner = exchange.caller.owner();
    let session = id.to_str().ok();
    let session = session.and_then(|id| exchange.mcp.state.sessions.get(id, &owner));
    let Some(session) = session else {
        let reason = "Session not found";
        return Err(invalid(StatusCode::NOT_FOUND, SESSION_NOT_FOUND, reason));
    };
    let version = exchange.headers.get(VERSION);
    let version = version.map(|version| version.to_str().ok()?.parse::<ProtocolVersion>().ok());
    if version == Some(None) {
        let reason = "Unsupported protocol version";
        return Err(invalid(StatusCode::BAD_REQUEST, NO_SESSION, reason));
    }
    Ok(session)
}

async fn answer(exchange: &Exchange<'_>, session: &Arc<Session>, request: Request) -> Response {
    if let Some(outcome) = of_session(exchange.mcp, &exchange.caller, session, &request).await {
        let message = message::response(Some(&request.id), &outcome);
        return json_response(StatusCode::OK, message);
    }
    let can_stream = headers::accepts_stream(exchange.headers);
    let id = request.id.clone();
    let answering = Answering::start(exchange.mcp, &exchange.caller, session, request, can_stream);
    let mut answering = match answering {
        Ok(answering) => answering,
        Err(error) => return failed(StatusCode::BAD_REQUEST, Some(&id), error),
    };
    match answering.next().await {
        // A cancelled request has no response.
        None => event_stream(body(None, answering)),
        Some(last) if answering.is_finished() && headers::accepts_json(exchange.headers) => {
            json_response(StatusCode::OK, last)
        }
        Some(first) => event_stream(body(Some(first), answering)),
    }
}

/// Handles a batch of messages, as in revision 2025-03-26. Notifications before a result are
/// dropped.
pub(super) async fn batch(exchange: &Exchange<'_>, text: &str) -> Response {
    #[derive(Deserialize)]
    struct JsonRpcBatch<'a>(#[serde(borrow)] Vec<&'a RawValue>);
    let Ok(JsonRpcBatch(messages)) = json_values::from_str::<JsonRpcBatch<'_>>(text) else {
        let error = RpcError::new(message::PARSE_ERROR, "Parse error");
        return failed(StatusCode::BAD_REQUEST, None, error);
    };
    let session = match session(exchange) {
        Ok(session) => session,
        Err(response) => return response,
    };
    if session.version != ProtocolVersion::V2025_03_26 {
        let reason = "This protocol version does not support batches";
        return invalid(StatusCode::BAD_REQUEST, INVALID_REQUEST, reason);
    }
    if messages.is_empty() || messages.len() > MAX_IN_BATCH {
        let reason = format!("A batch must have 1 to {MAX_IN_BATCH} messages");
        return invalid(StatusCode::BAD_REQUEST, INVALID_REQUEST, &reason);
    }
    // The results become one response.
    let mut caller = exchange.caller.clone();
    let memory = caller.context.result_memory.take();
    caller.context.result_memory = memory.map(|memory| memory.shared());
    let mut answers = Vec::new();
    for message in messages {
        match Inbound::parse(message.get()) {
            Ok(Inbound::Request(request)) => {
                answers.extend(answer_in_batch(exchange.mcp, &caller, &session, request).await);
            }
            Ok(other) => handle_message(&session, other),
            Err(unreadable) => {
                let id = unreadable.id.as_deref();
                answers.push(message::response(id, &Err(unreadable.error)));
            }
        }
    }
    if answers.is_empty() {
        return accepted();
    }
    let mut whole = vec![b'['];
    whole.extend(answers.join(&b','));
    whole.push(b']');
    json_response(StatusCode::OK, whole.into())
}

async fn answer_in_batch(
    mcp: &McpServer,
    caller: &Caller,
    session: &Arc<Session>,
    request: Request,
) -> Option<Bytes> {
    if let Some(outcome) = of_session(mcp, caller, session, &request).await {
        return Some(message::response(Some(&request.id), &outcome));
    }
    let id = request.id.clone();
    let answering = Answering::start(mcp, caller, session, request, false);
    let mut answering = match answering {
        Ok(answering) => answering,
        Err(error) => return Some(message::response(Some(&id), &Err(error))),
    };
    let mut last = None;
    while let Some(message) = answering.next().await {
        last = Some(message);
    }
    last
}

/// Opens the stream for messages that belong to no request.
pub(super) fn get(exchange: &Exchange<'_>) -> Response {
    if !headers::accepts_stream(exchange.headers) {
        let reason = "The response to GET is text/event-stream: the header Accept must allow it";
        return invalid(StatusCode::NOT_ACCEPTABLE, NO_SESSION, reason);
    }
    let session = match session(exchange) {
        Ok(session) => session,
        Err(response) => return response,
    };
    let listener = Listener::of_session(exchange.mcp, &exchange.caller, &session);
    event_stream(body_while_valid(
        None,
        listener,
        exchange.token_validity.clone(),
    ))
}

/// Ends the session.
pub(super) fn delete(exchange: &Exchange<'_>) -> Response {
    match session(exchange) {
        Ok(session) => {
            exchange.mcp.state.sessions.close(&session);
            json_response(StatusCode::OK, Bytes::new())
        }
        Err(response) => response,
    }
}
