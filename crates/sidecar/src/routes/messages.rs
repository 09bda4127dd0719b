//! Anthropic-compatible messages with the sidecar's tools: an Anthropic client only has to change
//! its base URL, whichever provider the model has.

mod answer;
mod conversation;
mod request;
mod stream;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use pillion_core::provider::Provider;
use serde_json::Value;

use super::body::Object;
use super::caller::Caller;
use super::door::{self, Shape, Words};
use super::error::RequestError;
use crate::app::App;
use crate::chat::{self, Ended};
use request::Request;
use stream::Events;

/// Creates a message.
#[utoipa::path(
    post,
    path = "/v1/messages",
    tag = "chat",
    operation_id = "chat_messages",
    summary = "A chat in the shapes of Anthropic's messages",
    description = "The tools that the model may see run here. A request with `tools` of its own has those alone, and its calls come back to it. Errors are in Anthropic's shape. One whose calls wait for somebody's approval has status 403 and the header `x-pillion-chat`: sent with the same request, it goes on with that chat. A stream that has begun has status 200, and that error as its last event.",
    params(
        ("x-pillion-user" = Option<String>, Header, description = "The user on whose behalf tools run; `metadata.user_id` of the body counts as well"),
        ("x-pillion-channel" = Option<String>, Header, description = "The channel the chat belongs to"),
        ("x-pillion-chat" = Option<String>, Header, description = "The chat to go on with"),
        ("wait_ms" = Option<u64>, Query, description = "How long to wait for approvals that calls need; so does the header `x-pillion-approval-wait-ms`"),
    ),
    request_body(content = Request, content_type = "application/json", example = json!({"max_tokens": 100, "messages": [{"role": "user", "content": "What is 6 * 7?"}]})),
    responses(
        (status = 200, description = "The answer, or with `stream` a stream of server-sent events", content((Object = "application/json"), (Object = "text/event-stream"))),
        door::Refusals,
    )
)]
pub(super) async fn create(
    State(app): State<App>,
    headers: HeaderMap,
    caller: Caller,
    Object(request): Object<Request>,
) -> Result<Response, RequestError> {
    request.check()?;
    let model = chat::model_of(&app, request.model.as_deref())?;
    let wanted = request.wanted(model.api == Some(Provider::Anthropic))?;
    Box::pin(door::serve(&app, &headers, caller, wanted, Messages)).await
}

/// Writes responses as Anthropic messages.
struct Messages;

impl Shape for Messages {
    const WORDS: Words = Words::Anthropic;

    type Writer = Events;

    fn whole(&self, ended: &Ended) -> Value {
        answer::of(ended)
    }

    /// Tool calls are sent complete at the end, so the writer ignores whether the client runs them.
    fn writer(&self, id: &str, model: &str, _has_own_tools: bool) -> Events {
        Events::new(id, model)
    }
}
