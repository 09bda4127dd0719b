//! OpenAI's chat completions with the sidecar's tools behind them: a client that changes its base
//! URL has them.

mod answer;
mod passed_on;
mod request;
mod stream;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use pillion_core::provider::Provider;
use pillion_core::tool::ErrorCode;
use pillion_wire::ChatAnswer;
use serde_json::{Value, json};

use super::body::Object;
use super::caller::Caller;
use super::error::RequestError;
use crate::app::App;
use crate::chat::{self, Beginning, Chat, ChatRefusal, Chatter};
use request::Completion;

/// Names the chat of a completion that failed or waits for an approval: the same request with this
/// header goes on with it.
const CHAT: HeaderName = HeaderName::from_static("x-pillion-chat");

/// What OpenAI's clients look at before they send a request again.
const SHOULD_RETRY: HeaderName = HeaderName::from_static("x-should-retry");

/// Answers as OpenAI's chat completions do.
#[utoipa::path(
    post,
    path = "/v1/chat/completions",
    tag = "chat",
    operation_id = "chat_completions",
    summary = "A chat in the shapes of OpenAI's chat completions",
    description = "The tools that the model may see run here. A request with `tools` of its own has those alone, and its calls come back to it. Errors are in OpenAI's shape. One whose calls wait for somebody's approval has status 403 and the header `x-pillion-chat`: sent with the same request, it goes on with that chat.",
    params(
        ("x-pillion-user" = Option<String>, Header, description = "The user on whose behalf tools run; `user` of the body counts as well"),
        ("x-pillion-channel" = Option<String>, Header, description = "The channel the chat belongs to"),
        ("x-pillion-chat" = Option<String>, Header, description = "The chat to go on with"),
        ("wait_ms" = Option<u64>, Query, description = "How long to wait for approvals that calls need; so does the header `x-pillion-approval-wait-ms`"),
    ),
    request_body(content = Completion, content_type = "application/json", example = json!({"messages": [{"role": "user", "content": "What is 6 * 7?"}]})),
    responses(
        (status = 200, description = "The answer, or with `stream` a stream of server-sent events", content((Object = "application/json"), (Object = "text/event-stream"))),
        (status = 400, description = "The request cannot be read, or the provider refused it", content_type = "application/json", body = Object),
        (status = 403, description = "Calls wait for an approval, or the token is for another user", content_type = "application/json", body = Object),
        (status = 404, description = "There is no such model or chat", content_type = "application/json", body = Object),
        (status = 408, description = "The body took too long", content_type = "application/json", body = Object),
        (status = 409, description = "Another request goes on with the chat now", content_type = "application/json", body = Object),
        (status = 413, description = "The body is too long", content_type = "application/json", body = Object),
        (status = 429, description = "The provider has had too many requests, or the chat may spend no more", content_type = "application/json", body = Object),
        (status = 502, description = "The provider's answer cannot be read, or it did not take our key", content_type = "application/json", body = Object),
        (status = 503, description = "No model is configured, or its provider cannot be reached", content_type = "application/json", body = Object),
        (status = 504, description = "The model did not answer in time", content_type = "application/json", body = Object),
    )
)]
pub(super) async fn complete(
    State(app): State<App>,
    headers: HeaderMap,
    caller: Result<Caller, RequestError>,
    request: Result<Object<Completion>, RequestError>,
) -> Response {
    let outcome = async {
        let Object(request) = request?;
        let named = headers.get(CHAT).map(|id| id.to_str().unwrap_or_default());
        serve(&app, named, caller?, request).await
    };
    Box::pin(outcome).await.unwrap_or_else(refused)
}

async fn serve(
    app: &App,
    chat: Option<&str>,
    caller: Caller,
    request: Completion,
) -> Result<Response, RequestError> {
    let caller = match &caller.context.user {
        // A token's or a header's user is not the client's to change.
        Some(_) => caller,
        None => caller.in_the_name_of(request.user.as_deref(), None)?,
    };
    let chatter = Chatter {
        context: caller.context,
        visibility: caller.visibility,
    };
    request.check()?;
    let model = chat::model_of(app, request.model.as_deref())?;
    let options = request.options(model.api == Some(Provider::OpenAiChat))?;
    let wants_usage = request.wants_usage();
    if let Some(tools) = request.own_tools()? {
        let turn = passed_on::OneTurn {
            voice: chat::voice_of(model)?,
            model: model.config.id.clone(),
            messages: request.messages(),
            tools,
            options: chat::options_of(model, options),
            timeout: app.models().chat().timeout,
        };
        return match request.stream == Some(true) {
            true => Ok(turn.stream(wants_usage)?),
            false => Ok(turn.answer().await?),
        };
    }
    let chat = match chat {
        Some(id) => Chat::resume(app, &chatter, id, &[]).await?,
        None => {
            let beginning = Beginning {
                model: request.model.clone(),
                messages: request.messages(),
                tools: request.may_use_tools(),
                options,
            };
            Chat::begin_unless_kept(app, &chatter, beginning).await?
        }
    };
    if request.stream == Some(true) {
        return Ok(stream::response(chat, wants_usage));
    }
    let answer = chat.run(None).await;
    Ok(match answer.success {
        true => Json(answer::of(&answer)).into_response(),
        false => failed(&answer),
    })
}

/// Lists the language models as OpenAI does.
#[utoipa::path(
    get,
    path = "/v1/models",
    tag = "chat",
    operation_id = "chat_completions_models",
    summary = "List the language models in OpenAI's shape",
    responses((status = 200, description = "Those that a chat is possible with", body = Object))
)]
pub(super) async fn models(State(app): State<App>) -> Json<Value> {
    let models = app.models().iter().filter(|model| model.voice.is_ok());
    let models: Vec<_> = models
        .map(|model| {
            let owner = model.config.provider.as_deref().unwrap_or("pillion");
            json!({"id": model.config.id, "object": "model", "created": 0, "owned_by": owner})
        })
        .collect();
    Json(json!({"object": "list", "data": models}))
}

/// A request that was refused, in OpenAI's shape.
fn refused(error: RequestError) -> Response {
    let message = error.to_string();
    let is_unknown_model = matches!(&error, RequestError::Chat(ChatRefusal::UnknownModel { .. }));
    // With its status and whatever headers it has.
    let mut response = error.into_response();
    let status = response.status();
    let (kind, code) = match status {
        StatusCode::NOT_FOUND if is_unknown_model => ("invalid_request_error", "model_not_found"),
        status if status.is_client_error() => ("invalid_request_error", "invalid_request"),
        _ => ("api_error", "unavailable"),
    };
    let body = Json(error_body(&message, kind, code)).into_response();
    let kind = body
        .headers()
        .get(axum::http::header::CONTENT_TYPE)
        .cloned();
    if let Some(kind) = kind {
        let name = axum::http::header::CONTENT_TYPE;
        response.headers_mut().insert(name, kind);
    }
    response
        .headers_mut()
        .remove(axum::http::header::CONTENT_LENGTH);
    *response.body_mut() = body.into_body();
    response
}

/// A chat that has no answer, in OpenAI's shape.
fn failed(answer: &ChatAnswer) -> Response {
    let (status, error) = failure_of(answer);
    let mut response = (status, Json(error)).into_response();
    let headers = response.headers_mut();
    if let Ok(id) = HeaderValue::from_str(&answer.id) {
        headers.insert(CHAT, id);
    }
    if !answer.tool_calls.is_empty() || !answer.approvals.is_empty() {
        // The client's own repetition would be a new chat, whose tools run again.
        headers.insert(SHOULD_RETRY, HeaderValue::from_static("false"));
    }
    if let Some(after) = answer.retry_after {
        let seconds = HeaderValue::from(after.ceil().max(0.0) as u64);
        headers.insert(axum::http::header::RETRY_AFTER, seconds);
    }
    response
}

/// Status and body for a chat without an answer.
fn failure_of(answer: &ChatAnswer) -> (StatusCode, Value) {
    if answer.error.is_none() && !answer.approvals.is_empty() {
        let ids = answer.approvals.iter().filter_map(|it| it.id.as_deref());
        let ids: Vec<_> = ids.collect();
        let tools: Vec<_> = answer.approvals.iter().map(|it| it.tool.as_str()).collect();
        let message = format!(
            "Calls of {} wait for approval ({}). Decide on them, and send the request again with the \
             header x-pillion-chat: {}",
            tools.join(", "),
            ids.join(", "),
            answer.id
        );
        let code = ErrorCode::ApprovalRequired.as_str();
        return (StatusCode::FORBIDDEN, error_body(&message, code, code));
    }
    let code = answer.error_code.as_deref().unwrap_or("internal_error");
    let status = match code {
        "invalid_input" => StatusCode::BAD_REQUEST,
        "rate_limited" => StatusCode::TOO_MANY_REQUESTS,
        "timeout" => StatusCode::GATEWAY_TIMEOUT,
        "unavailable" => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::BAD_GATEWAY,
    };
    let kind = match status.is_client_error() {
        true => "invalid_request_error",
        false => "api_error",
    };
    let message = answer.error.as_deref().unwrap_or("The chat did not end");
    (status, error_body(message, kind, code))
}

fn error_body(message: &str, kind: &str, code: &str) -> Value {
    json!({"error": {"message": message, "type": kind, "param": null, "code": code}})
}
