use serde_json::{Value, json};

use super::chat_request::list;
use super::{LlmDialect, LlmResponse};

/// Returns the error that providers return for an invalid conversation; `None` for a valid one.
pub(super) fn rejection(dialect: LlmDialect, request: &Value) -> Option<LlmResponse> {
    let complaint = match dialect {
        LlmDialect::OpenAiChat => in_chat(list(&request["messages"])),
        LlmDialect::OpenAiResponses => in_items(list(&request["input"])),
        LlmDialect::Anthropic => in_blocks(list(&request["messages"])),
        LlmDialect::Google => None,
    }?;
    let error = json!({"type": "invalid_request_error", "message": complaint});
    let body = json!({"type": "error", "error": error});
    Some(LlmResponse::error_response(
        "400 Bad Request",
        &body.to_string(),
    ))
}

/// Checks a conversation as vLLM and llama-server do, which parse the arguments of every call.
fn in_chat(messages: &[Value]) -> Option<&'static str> {
    let calls = messages
        .iter()
        .flat_map(|message| list(&message["tool_calls"]));
    let mut arguments = calls.map(|call| &call["function"]["arguments"]);
    let is_broken = arguments.any(|arguments| !is_object(arguments));
    is_broken.then_some("The arguments of a tool call are no JSON object")
}

fn in_items(items: &[Value]) -> Option<&'static str> {
    let is = |item: &Value, kind: &str| item["type"] == kind;
    let mut calls = items.iter().filter(|item| is(item, "function_call"));
    if calls.any(|call| !is_object(&call["arguments"])) {
        return Some("The arguments of a tool call are no JSON object");
    }
    let is_alone = |(index, item): (usize, &Value)| {
        let next = items.get(index + 1);
        is(item, "reasoning") && next.is_none_or(|next| next["role"] == "user")
    };
    let is_alone = items.iter().enumerate().any(is_alone);
    is_alone.then_some("Item of type 'reasoning' was provided without its required following item")
}

fn in_blocks(messages: &[Value]) -> Option<&'static str> {
    let mut responses = messages.iter().filter(|it| it["role"] == "assistant");
    let ends_in_thinking = responses.any(|message| {
        let last = list(&message["content"]).last();
        last.is_some_and(|block| {
            block["type"] == "thinking" || block["type"] == "redacted_thinking"
        })
    });
    ends_in_thinking.then_some("The final block in an assistant message cannot be `thinking`")
}

/// Returns whether a call's arguments are the text of a JSON object.
fn is_object(arguments: &Value) -> bool {
    let text = arguments.as_str().unwrap_or_default();
    serde_json::from_str(text).is_ok_and(|it: Value| it.is_object())
}
