//! Batches of messages, which exist only in revision 2025-03-26.

use std::sync::Arc;

use axum::body::Bytes;
use axum::http::StatusCode;
use axum::response::Response;
use pillion_core::json_values;
use pillion_mcp_client::{ProtocolVersion, RpcError};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{
    NO_SESSION_CODE, create_temporary_session, find_session, missing_session_reason, respond,
};
use crate::Caller;
use crate::http::{
    Exchange, accepted_response, error_response, error_response_without_id, headers,
};
use crate::sessions::{Responses, Session};
use crate::source::{MessageSource, PendingResponse};
use crate::stateful::{
    RunningSessionRequest, concerns_session, handle_message, handle_session_request,
};
use pillion_gateway::calling_client::message::{
    self, INVALID_REQUEST, Inbound, Request, UnreadableMessage,
};

/// Maximum number of messages in one batch.
const MAX_BATCH_MESSAGES: usize = 100;

/// Handles a batch of messages, as in revision 2025-03-26. Notifications that a request's handler
/// sends before the result are dropped, because the response to a batch contains only responses.
pub(in crate::http) async fn post(exchange: &Exchange<'_>, text: &str) -> Response {
    #[derive(Deserialize)]
    struct JsonRpcBatch<'a>(#[serde(borrow)] Vec<&'a RawValue>);
    let Ok(JsonRpcBatch(messages)) = json_values::from_str::<JsonRpcBatch<'_>>(text) else {
        let reason = "Parse error: the batch is invalid JSON or has too many values";
        let error = RpcError::new(message::PARSE_ERROR, reason);
        return error_response(StatusCode::BAD_REQUEST, None, error);
    };
    let has_session = headers::session_id(exchange.headers).is_some();
    let session_result = if has_session {
        find_session(exchange)
    } else {
        create_temporary_session(exchange)
    };
    let session = match session_result {
        Ok(session) => session,
        Err(response) => return response,
    };
    if session.version != ProtocolVersion::V2025_03_26 {
        let reason = format!(
            "The protocol version {} does not support batches",
            session.version
        );
        return error_response_without_id(StatusCode::BAD_REQUEST, INVALID_REQUEST, &reason);
    }
    if messages.is_empty() || messages.len() > MAX_BATCH_MESSAGES {
        let count = messages.len();
        let reason = format!("A batch must have 1 to {MAX_BATCH_MESSAGES} messages, {count} given");
        return error_response_without_id(StatusCode::BAD_REQUEST, INVALID_REQUEST, &reason);
    }
    // Shares the memory that is reserved for results among the calls of the batch, because their
    // results are sent as one response.
    let mut caller = exchange.caller.clone();
    let memory = caller.context.result_memory.take();
    caller.context.result_memory = memory.map(|memory| memory.shared());
    let inbound_messages: Vec<_> = messages
        .into_iter()
        .map(|message| Inbound::parse(message.get()))
        .collect();
    let has_response = |message: &_| matches!(message, Ok(Inbound::Request(_)) | Err(_));
    let has_responses = inbound_messages.iter().any(has_response);
    let batch = Batch {
        caller,
        session,
        has_session,
    };
    let mut response = PendingResponse::new(async move { batch.respond(inbound_messages).await });
    if !has_responses {
        response.next().await;
        return accepted_response();
    }
    respond(exchange, response, PendingResponse::is_finished).await
}

/// Handles the messages of one batch.
struct Batch {
    caller: Caller,
    session: Arc<Session>,
    /// Whether the client has named the session by its ID; otherwise the session was created for
    /// this batch and ends with it.
    has_session: bool,
}

impl Batch {
    /// Returns the responses as a JSON array; `None` if there are none.
    async fn respond(self, messages: Vec<Result<Inbound, UnreadableMessage>>) -> Option<Bytes> {
        let mut responses = Vec::new();
        for message in messages {
            match message {
                Ok(Inbound::Request(request)) => {
                    responses.extend(Box::pin(self.respond_to_request(request)).await);
                }
                Ok(inbound) => handle_message(&self.session, inbound),
                Err(unreadable) => {
                    let id = unreadable.id.as_deref();
                    responses.push(message::response(id, &Err(unreadable.error)));
                }
            }
        }
        if responses.is_empty() {
            return None;
        }
        let mut batch_json = vec![b'['];
        batch_json.extend(responses.join(&b','));
        batch_json.push(b']');
        Some(batch_json.into())
    }

    async fn respond_to_request(&self, request: Request) -> Option<Bytes> {
        let (caller, session) = (&self.caller, &self.session);
        if concerns_session(&request.method) {
            let outcome = if self.has_session {
                handle_session_request(caller, session, &request).await
            } else {
                let reason = missing_session_reason(&request.method);
                Err(RpcError::new(NO_SESSION_CODE, reason))
            };
            return Some(message::response(Some(&request.id), &outcome));
        }
        let id = request.id.clone();
        let responses = Responses::PerRequest;
        let start_result = RunningSessionRequest::start(caller, session, request, responses, false);
        let mut running_request = match start_result {
            Ok(running_request) => running_request,
            Err(error) => return Some(message::response(Some(&id), &Err(error))),
        };
        let mut last_message = None;
        while let Some(message) = running_request.next().await {
            last_message = Some(message);
        }
        last_message
    }
}
