//! Chat completion responses in OpenAI's format.

use std::time::{SystemTime, UNIX_EPOCH};

use pillion_core::tool::ToolCall;
use pillion_wire::ChatUsage;
use serde_json::{Map, Value, json};

use pillion_management::chat::ChatOutcome;

/// Returns the complete chat completion.
pub(super) fn from_outcome(outcome: &ChatOutcome) -> Value {
    let response = &outcome.response;
    let content = response.content.as_deref().unwrap_or_default();
    let is_declined = outcome.ending.is_refusal;
    let (text, refusal) = if is_declined {
        (None, Some(content))
    } else {
        (Some(content), None)
    };
    let mut message = json!({"role": "assistant", "content": text, "refusal": refusal});
    if !outcome.calls.is_empty() {
        if content.is_empty() {
            message["content"] = Value::Null;
        }
        message["tool_calls"] = format_calls(outcome).collect();
    }
    add_members(&mut message, &outcome.provider_members.message);
    json!({
        "id": format!("chatcmpl-{}", response.id),
        "object": "chat.completion",
        "created": now_seconds(),
        "model": response.model,
        "choices": [{
            "index": 0,
            "message": message,
            "logprobs": null,
            "finish_reason": if is_declined { "stop" } else { finish_reason(outcome) },
        }],
        "usage": usage_json(&response.usage),
    })
}

/// Returns the calls that the client must run, with the provider-specific fields that the client
/// must send back with each call.
pub(super) fn format_calls(outcome: &ChatOutcome) -> impl Iterator<Item = Value> {
    let mut provider_members = outcome.provider_members.calls.iter();
    outcome.calls.iter().map(move |tool_call| {
        let mut call = format_call(tool_call);
        if let Some(members) = provider_members.next() {
            add_members(&mut call, members);
        }
        call
    })
}

fn add_members(value: &mut Value, members: &Map<String, Value>) {
    for (name, member) in members {
        value[name] = member.clone();
    }
}

fn format_call(call: &ToolCall) -> Value {
    json!({
        "id": call.id,
        "type": "function",
        "function": {"name": call.name, "arguments": format_arguments(call)},
    })
}

/// Returns the arguments as JSON text; empty arguments become `{}`.
fn format_arguments(call: &ToolCall) -> String {
    match &call.arguments {
        Value::String(text) if !text.trim().is_empty() => text.clone(),
        Value::Null | Value::String(_) => "{}".to_owned(),
        arguments => arguments.to_string(),
    }
}

/// Returns the token usage of a chat.
pub(super) fn usage_json(usage: &ChatUsage) -> Value {
    json!({
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.input_tokens.saturating_add(usage.output_tokens),
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
    })
}

/// Returns the finish reason, mapped to the values that clients with typed responses accept.
pub(super) fn finish_reason(outcome: &ChatOutcome) -> &str {
    match outcome.response.finish_reason.as_deref() {
        Some(finish_reason @ ("length" | "content_filter")) => finish_reason,
        _ if outcome.calls.is_empty() => "stop",
        _ => "tool_calls",
    }
}

/// Returns the current time, in seconds since 1970.
pub(super) fn now_seconds() -> u64 {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH);
    since_epoch
        .map(|elapsed| elapsed.as_secs())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_counts_of_any_size_have_a_total() {
        let usage = ChatUsage {
            requests: 1,
            input_tokens: u64::MAX,
            output_tokens: u64::MAX,
            cached_tokens: u64::MAX,
        };
        assert_eq!(usage_json(&usage)["total_tokens"], u64::MAX);
    }
}
