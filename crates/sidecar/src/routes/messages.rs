//! Anthropic-compatible messages with the sidecar's tools, for models of any provider: an Anthropic
//! client only has to change its base URL.

mod conversation;
mod request;
mod response;
mod stream;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use serde_json::Value;

use super::compatible::{self, ErrorFormat, ResponseFormat};
use super::extract::{Caller, ObjectBody};
use crate::app::App;
use pillion_management::chat::{self, ChatOutcome};
use pillion_management::error::Result;
use pillion_wire::route;
use request::MessagesRequest;
use stream::MessageEvents;

/// Create a message (Anthropic-compatible).
///
/// The sidecar runs the tools that the model may use. If the request has `tools`, the model gets
/// only those, and their calls are returned to the client. Errors have Anthropic's format. If calls
/// wait for approval, the response has the status 403 and the header `x-pillion-chat`: repeat the
/// request with that header to continue the chat. A stream that has started keeps the status 200
/// and sends the error as its last event.
#[utoipa::path(
    post,
    path = route::ANTHROPIC_MESSAGES.path,
    operation_id = "messages",
    params(
        ("x-pillion-user" = Option<String>, Header, description = "The user on whose behalf tools run; defaults to `metadata.user_id` in the request body"),
        ("x-pillion-channel" = Option<String>, Header, description = "The channel that the chat belongs to"),
        ("x-pillion-chat" = Option<String>, Header, description = "The ID of the chat to continue"),
        ("wait_ms" = Option<u64>, Query, description = "How long to wait for approvals, in milliseconds; the header `x-pillion-approval-wait-ms` has the same meaning"),
    ),
    request_body(content = MessagesRequest, content_type = "application/json", example = json!({"max_tokens": 100, "messages": [{"role": "user", "content": "What is 6 * 7?"}]})),
    responses(
        (status = 200, description = "The response; with `stream`, a stream of server-sent events", content((Object = "application/json"), (Object = "text/event-stream"))),
        compatible::ErrorResponses,
    )
)]
pub(super) async fn create(
    State(app): State<App>,
    headers: HeaderMap,
    caller: Caller,
    ObjectBody(request): ObjectBody<MessagesRequest>,
) -> Result<Response> {
    request.check()?;
    let model = chat::find_model(&app, request.model.as_deref())?;
    let compatible_request = request.into_compatible(model)?;
    Box::pin(compatible::serve(
        &app,
        &headers,
        caller,
        compatible_request,
        MessagesFormat,
    ))
    .await
}

/// Writes responses as Anthropic messages.
struct MessagesFormat;

impl ResponseFormat for MessagesFormat {
    const ERROR_FORMAT: ErrorFormat = ErrorFormat::Anthropic;

    type Writer = MessageEvents;

    fn complete_response(&self, outcome: &ChatOutcome) -> Value {
        response::from_outcome(outcome)
    }

    /// Tool calls are sent complete at the end, so the writer ignores whether the client runs them.
    fn new_writer(&self, id: &str, model: &str, _has_client_tools: bool) -> MessageEvents {
        MessageEvents::new(id, model)
    }
}
