//! OpenAI-compatible chat completions with the sidecar's tools: an OpenAI client only has to change
//! its base URL.

mod calls;
mod request;
mod response;
mod stream;

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use serde_json::{Value, json};

use super::compatible::{self, ErrorFormat, ResponseFormat};
use super::extract::{Caller, ObjectBody};
use super::parameters::PathParameter;
use crate::app::App;
use pillion_gateway::models::Model;
use pillion_management::chat::{self, ChatOutcome, ChatRejection};
use pillion_management::error::Result;
use pillion_wire::route;
use request::Completion;
use stream::CompletionChunks;

/// Create a chat completion (OpenAI-compatible).
///
/// The sidecar runs the tools that the model may use. If the request has `tools`, the model gets
/// only those, and their calls are returned to the client. Errors have OpenAI's format. If calls
/// wait for approval, the response has the status 403 and the header `x-pillion-chat`: repeat the
/// request with that header to continue the chat. A stream that has started keeps the status 200
/// and sends the error as its last event.
#[utoipa::path(
    post,
    path = route::CHAT_COMPLETIONS.path,
    operation_id = "completions",
    params(
        ("x-pillion-user" = Option<String>, Header, description = "The user on whose behalf tools run; defaults to `user` in the request body"),
        ("x-pillion-channel" = Option<String>, Header, description = "The channel that the chat belongs to"),
        ("x-pillion-chat" = Option<String>, Header, description = "The ID of the chat to continue"),
        ("wait_ms" = Option<u64>, Query, description = "How long to wait for approvals, in milliseconds; the header `x-pillion-approval-wait-ms` has the same meaning"),
    ),
    request_body(content = Completion, content_type = "application/json", example = json!({"messages": [{"role": "user", "content": "What is 6 * 7?"}]})),
    responses(
        (status = 200, description = "The response; with `stream`, a stream of server-sent events", content((Object = "application/json"), (Object = "text/event-stream"))),
        compatible::ErrorResponses,
    )
)]
pub(super) async fn complete(
    State(app): State<App>,
    headers: HeaderMap,
    caller: Caller,
    ObjectBody(request): ObjectBody<Completion>,
) -> Result<Response> {
    request.check()?;
    let model = chat::find_model(&app, request.model.as_deref())?;
    let format = Completions {
        has_usage_chunk: request.has_usage_chunk(),
    };
    let compatible_request = request.into_compatible(model)?;
    Box::pin(compatible::serve(
        &app,
        &headers,
        caller,
        compatible_request,
        format,
    ))
    .await
}

/// Writes responses as chat completions.
struct Completions {
    /// Whether the last chunk of the stream contains the token usage.
    has_usage_chunk: bool,
}

impl ResponseFormat for Completions {
    const ERROR_FORMAT: ErrorFormat = ErrorFormat::OpenAi;

    type Writer = CompletionChunks;

    fn complete_response(&self, outcome: &ChatOutcome) -> Value {
        response::from_outcome(outcome)
    }

    fn new_writer(&self, id: &str, model: &str, has_client_tools: bool) -> CompletionChunks {
        CompletionChunks::new(id, model, self.has_usage_chunk, has_client_tools)
    }
}

/// List the language models in the formats of OpenAI and Anthropic.
#[utoipa::path(
    get,
    path = route::OPENAI_MODELS.path,
    operation_id = "completions_models",
    responses((status = 200, description = "The models that can be used for chats", body = Object))
)]
pub(super) async fn models(State(app): State<App>) -> Json<Value> {
    let models: Vec<_> = app.models().iter().filter_map(build_entry).collect();
    let id = |model: Option<&Value>| model.map(|model| model["id"].clone());
    Json(json!({
        "object": "list",
        "first_id": id(models.first()),
        "last_id": id(models.last()),
        "has_more": false,
        "data": models,
    }))
}

/// Show a language model in the formats of OpenAI and Anthropic.
#[utoipa::path(
    get,
    path = route::OPENAI_MODEL.path,
    operation_id = "completions_model",
    params(("id" = String, Path, description = "The model's name; slashes need no percent-encoding")),
    responses(
        (status = 200, description = "The model", body = Object),
        (status = 404, description = "Model not found, or the model cannot be used for chats"),
    )
)]
pub(super) async fn model(
    State(app): State<App>,
    PathParameter(mut id): PathParameter,
) -> Result<Json<Value>> {
    id.truncate(id.trim_end_matches('/').len());
    let model_entry = app.models().get(&id).and_then(build_entry);
    Ok(Json(model_entry.ok_or(ChatRejection::UnknownModel { id })?))
}

/// Returns the entry of a model, or `None` if the model cannot be used for chats.
fn build_entry(model: &Model) -> Option<Value> {
    model.client.as_ref().ok()?;
    let id = &model.config.id;
    Some(json!({
        "id": id,
        "object": "model",
        "created": 0,
        "owned_by": model.config.provider.as_deref().unwrap_or("pillion"),
        "type": "model",
        "display_name": model.config.label.as_ref().unwrap_or(id),
        "created_at": "1970-01-01T00:00:00Z",
    }))
}
