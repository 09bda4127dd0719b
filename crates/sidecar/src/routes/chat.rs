//! Routes under `/api/v1/chat`: chats with language models that use tools.

mod stream;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use pillion_chat::TurnOptions;
use pillion_wire::{ChatList, ChatRemoved, ChatRequest, ChatResponse, ChatTranscript, route};
use serde_json::{Value, json};

use super::extract::{Caller, ObjectBody, OptionalBody};
use super::parameters::PathParameter;
use crate::app::App;
use pillion_management::chat::{self, Chat, ChatCaller, ChatInput, NewChat, user_message};
use pillion_management::error::{RequestError, Result};

/// Start a chat.
///
/// The model responds with the help of the tools that it may use. With `stream`, the response is a
/// stream of server-sent events: `chat` with the ID and the model, `delta`, `thought`, `status`,
/// `tool_started`, `tool_finished`, `tool_waiting`, `usage`, and finally `done` with the response
/// body of a request without `stream`. The status is 200 even if the model fails: `success` has the
/// outcome.
#[utoipa::path(
    post,
    path = route::BEGIN_CHAT.path,
    params(
        ("x-pillion-user" = Option<String>, Header, description = "The user on whose behalf tools run"),
        ("x-pillion-channel" = Option<String>, Header, description = "The channel that the chat belongs to"),
        ("wait_ms" = Option<u64>, Query, description = "How long to wait for approvals, in milliseconds; the header `x-pillion-approval-wait-ms` has the same meaning"),
    ),
    request_body(content = ChatRequest, content_type = "application/json", example = json!({"message": "What is 6 * 7?"})),
    responses(
        (status = 200, description = "The model's answer, a failure, or the calls that wait for approval", content((ChatResponse = "application/json"), (Object = "text/event-stream"))),
        (status = 400, description = "The request body is invalid"),
        (status = 403, description = "The token is for another user"),
        (status = 404, description = "Model not found"),
        (status = 503, description = "No model is configured, or the chat cannot be stored"),
    )
)]
pub(super) async fn begin(
    State(app): State<App>,
    caller: Caller,
    ObjectBody(request): ObjectBody<ChatRequest>,
) -> Result<Response> {
    let chat_caller = chat_caller(caller, &request)?;
    let mut messages = new_messages(&request)?;
    if messages.is_empty() {
        return Err(RequestError::invalid_parameter(
            "message",
            "set, unless the request has 'messages'",
        ));
    }
    if let Some(system) = &request.system {
        messages.insert(0, json!({"role": "system", "content": system}));
    }
    let new_chat = NewChat {
        input: ChatInput::Messages(messages),
        may_use_tools: request.enable_tools.unwrap_or(true),
        options: TurnOptions {
            temperature: request.temperature,
            max_output_tokens: request.max_output_tokens,
            ..TurnOptions::default()
        },
        model: request.model,
    };
    let chat = Chat::begin(&app, &chat_caller, new_chat).await?;
    Ok(respond(&app, chat, request.stream).await)
}

/// Continue a chat.
///
/// The request body has the user's next message. Omit the message to continue after calls were
/// approved or denied, or after a failure or a lost connection. No tool runs a second time. If the
/// model has already given its final response, that response is returned again.
#[utoipa::path(
    post,
    path = route::CONTINUE_CHAT.path,
    params(
        ("id" = String, Path, description = "The chat's ID"),
        ("x-pillion-user" = Option<String>, Header, description = "The user who owns the chat"),
        ("wait_ms" = Option<u64>, Query, description = "How long to wait for approvals, in milliseconds; the header `x-pillion-approval-wait-ms` has the same meaning"),
    ),
    request_body(content = Option<ChatRequest>, content_type = "application/json", example = json!({"message": "And twice that?"})),
    responses(
        (status = 200, description = "The model's answer, a failure, or the calls that wait for approval", content((ChatResponse = "application/json"), (Object = "text/event-stream"))),
        (status = 400, description = "The request body is invalid"),
        (status = 403, description = "The token is for another user"),
        (status = 404, description = "Chat not found, or the chat's model is no longer configured"),
        (status = 409, description = "Another request is continuing the chat"),
        (status = 503, description = "The chat cannot be read or stored"),
    )
)]
pub(super) async fn go_on(
    State(app): State<App>,
    PathParameter(id): PathParameter,
    caller: Caller,
    OptionalBody(request): OptionalBody<ChatRequest>,
) -> Result<Response> {
    let chat_caller = chat_caller(caller, &request)?;
    for (name, is_set) in [
        ("model", request.model.is_some()),
        ("system", request.system.is_some()),
        ("enable_tools", request.enable_tools.is_some()),
        ("temperature", request.temperature.is_some()),
        ("max_output_tokens", request.max_output_tokens.is_some()),
    ] {
        if is_set {
            return Err(RequestError::invalid_parameter(
                name,
                "omitted: it is set when the chat starts",
            ));
        }
    }
    let chat = Chat::resume(&app, &chat_caller, &id, &new_messages(&request)?).await?;
    Ok(respond(&app, chat, request.stream).await)
}

/// List the caller's chats.
///
/// Returns at most 100 chats, most recently used first. `content` is truncated to 4096 bytes. In
/// calls that wait for approval, `arguments` of more than 4096 bytes are null.
#[utoipa::path(
    get,
    path = route::LIST_CHATS.path,
    params(("x-pillion-user" = Option<String>, Header, description = "The user who owns the chats")),
    responses(
        (status = 200, description = "The chats", body = ChatList),
        (status = 403, description = "The token is for another user"),
        (status = 503, description = "The chats cannot be read"),
    )
)]
pub(super) async fn list(State(app): State<App>, caller: Caller) -> Result<Json<ChatList>> {
    let chats = chat::list(&app, &caller.context).await?;
    Ok(Json(ChatList {
        success: true,
        chats: chats.into_iter().map(|listed| listed.chat).collect(),
    }))
}

/// Show a chat with its messages.
#[utoipa::path(
    get,
    path = route::SHOW_CHAT.path,
    params(
        ("id" = String, Path, description = "The chat's ID"),
        ("x-pillion-user" = Option<String>, Header, description = "The user who owns the chat")
    ),
    responses(
        (status = 200, description = "The chat", body = ChatTranscript),
        (status = 403, description = "The token is for another user"),
        (status = 404, description = "Chat not found"),
        (status = 503, description = "The chat cannot be read"),
    )
)]
pub(super) async fn show(
    State(app): State<App>,
    PathParameter(id): PathParameter,
    caller: Caller,
) -> Result<Json<ChatTranscript>> {
    Ok(Json(chat::show(&app, &caller.context, &id).await?))
}

/// Delete a chat.
#[utoipa::path(
    delete,
    path = route::REMOVE_CHAT.path,
    params(
        ("id" = String, Path, description = "The chat's ID"),
        ("x-pillion-user" = Option<String>, Header, description = "The user who owns the chat")
    ),
    responses(
        (status = 200, description = "The chat is deleted", body = ChatRemoved),
        (status = 403, description = "The token is for another user"),
        (status = 404, description = "Chat not found"),
        (status = 409, description = "A request is continuing the chat"),
        (status = 503, description = "The chat cannot be deleted"),
    )
)]
pub(super) async fn forget(
    State(app): State<App>,
    PathParameter(id): PathParameter,
    caller: Caller,
) -> Result<Json<ChatRemoved>> {
    chat::forget(&app, &caller.context, &id).await?;
    Ok(Json(ChatRemoved {
        success: true,
        removed: id,
    }))
}

async fn respond(app: &App, chat: Chat, stream: Option<bool>) -> Response {
    if stream == Some(true) {
        return stream::stream_response(chat, app.max_chat_duration());
    }
    // The future is boxed, because the future of a chat is large.
    let outcome = Box::pin(chat.run(None)).await;
    Json(outcome.response).into_response()
}

/// Returns the caller, with the user and channel of the headers and the body.
fn chat_caller(caller: Caller, request: &ChatRequest) -> Result<ChatCaller> {
    let caller = caller.with_identity(request.user.as_deref(), request.channel.as_deref())?;
    Ok(ChatCaller {
        context: caller.context,
        visibility: caller.visibility,
    })
}

/// Returns the new messages of the request.
fn new_messages(request: &ChatRequest) -> Result<Vec<Value>> {
    match (&request.message, &request.messages) {
        (Some(_), Some(_)) => Err(RequestError::invalid_parameter(
            "message",
            "omitted if the request has 'messages'",
        )),
        (Some(message), None) => Ok(vec![user_message(message)]),
        (None, Some(messages)) => Ok(messages.iter().cloned().map(Value::Object).collect()),
        (None, None) => Ok(Vec::new()),
    }
}
