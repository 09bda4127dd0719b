//! Batches of messages, which exist only in revision 2025-03-26.

use std::sync::Arc;

use axum::body::Bytes;
use axum::http::StatusCode;
use axum::response::Response;
use pillion_core::json_values;
use pillion_mcp_client::{ProtocolVersion, RpcError};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{NO_SESSION, default_session, needs_session, respond, session};
use crate::Caller;
use crate::http::{Exchange, accepted, failed, headers, invalid};
use crate::sessions::{Responses, Session};
use crate::source::{PendingResponse, Source};
use crate::stateful::{Answering, concerns_session, handle_message, handle_session_request};
use pillion_gateway::calling_client::message::{
    self, INVALID_REQUEST, Inbound, Request, Unreadable,
};

/// Maximum number of messages in one batch.
const MAX_IN_BATCH: usize = 100;

/// Handles a batch of messages, as in revision 2025-03-26. Notifications before a result are
/// dropped.
pub(in crate::http) async fn post(exchange: &Exchange<'_>, text: &str) -> Response {
    #[derive(Deserialize)]
    struct JsonRpcBatch<'a>(#[serde(borrow)] Vec<&'a RawValue>);
    let Ok(JsonRpcBatch(messages)) = json_values::from_str::<JsonRpcBatch<'_>>(text) else {
        let error = RpcError::new(message::PARSE_ERROR, "Parse error");
        return failed(StatusCode::BAD_REQUEST, None, error);
    };
    let has_session = headers::session_id(exchange.headers).is_some();
    let found = if has_session {
        session(exchange)
    } else {
        default_session(exchange)
    };
    let session = match found {
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
    // The results of the batch are sent as one response.
    let mut caller = exchange.caller.clone();
    let memory = caller.context.result_memory.take();
    caller.context.result_memory = memory.map(|memory| memory.shared());
    let messages: Vec<_> = messages
        .into_iter()
        .map(|message| Inbound::parse(message.get()))
        .collect();
    let has_response = |message: &_| matches!(message, Ok(Inbound::Request(_)) | Err(_));
    let has_responses = messages.iter().any(has_response);
    let batch = Batch {
        caller,
        session,
        has_session,
    };
    let mut response = PendingResponse::new(async move { batch.respond(messages).await });
    if !has_responses {
        response.next().await;
        return accepted();
    }
    respond(exchange, response, PendingResponse::is_finished).await
}

/// Handles the messages of one batch.
struct Batch {
    caller: Caller,
    session: Arc<Session>,
    /// Whether the client has named the session; otherwise the session exists only for this batch.
    has_session: bool,
}

impl Batch {
    /// Returns the responses as a JSON array; `None` if there are none.
    async fn respond(self, messages: Vec<Result<Inbound, Unreadable>>) -> Option<Bytes> {
        let mut responses = Vec::new();
        for message in messages {
            match message {
                Ok(Inbound::Request(request)) => {
                    responses.extend(Box::pin(self.respond_to(request)).await);
                }
                Ok(other) => handle_message(&self.session, other),
                Err(unreadable) => {
                    let id = unreadable.id.as_deref();
                    responses.push(message::response(id, &Err(unreadable.error)));
                }
            }
        }
        if responses.is_empty() {
            return None;
        }
        let mut whole = vec![b'['];
        whole.extend(responses.join(&b','));
        whole.push(b']');
        Some(whole.into())
    }

    async fn respond_to(&self, request: Request) -> Option<Bytes> {
        let Self {
            caller,
            session,
            has_session,
        } = self;
        if concerns_session(&request.method) {
            let outcome = if *has_session {
                handle_session_request(caller, session, &request).await
            } else {
                Err(RpcError::new(NO_SESSION, needs_session(&request.method)))
            };
            return Some(message::response(Some(&request.id), &outcome));
        }
        let id = request.id.clone();
        let responses = Responses::Separate;
        let started = Answering::start(caller, session, request, responses, false);
        let mut answering = match started {
            Ok(answering) => answering,
            Err(error) => return Some(message::response(Some(&id), &Err(error))),
        };
        let mut last = None;
        while let Some(message) = answering.next().await {
            last = Some(message);
        }
        last
    }
}
