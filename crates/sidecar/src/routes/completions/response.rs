//! Chat completion responses in OpenAI's format.

use std::time::{SystemTime, UNIX_EPOCH};

use pillion_core::tool::ToolCall;
use pillion_wire::ChatUsage;
use serde_json::{Map, Value, json};

use crate::chat::ChatOutcome;

/// Returns the complete chat completion.
pub(super) fn from_outcome(ended: &ChatOutcome) -> Value {
    let response = &ended.response;
    let content = response.content.as_deref().unwrap_or_default();
    let is_declined = ended.ending.is_refusal;
    let (text, declined) = if is_declined {
        (None, Some(content))
    } else {
        (Some(content), None)
    };
    let mut message = json!({"role": "assistant", "content": text, "refusal": declined});
    if !ended.calls.is_empty() {
        if content.is_empty() {
            message["content"] = Value::Null;
        }
        message["tool_calls"] = calls(ended).collect();
    }
    add(&mut message, &ended.provider_members.message);
    json!({
        "id": format!("chatcmpl-{}", response.id),
        "object": "chat.completion",
        "created": now(),
        "model": response.model,
        "choices": [{
            "index": 0,
            "message": message,
            "logprobs": null,
            "finish_reason": if is_declined { "stop" } else { reason(ended) },
        }],
        "usage": cost(&response.usage),
    })
}

/// Returns the calls that the client must run, with the provider-specific fields that the client
/// must send back with each call.
pub(super) fn calls(ended: &ChatOutcome) -> impl Iterator<Item = Value> {
    let mut provider_members = ended.provider_members.calls.iter();
    ended.calls.iter().map(move |it| {
        let mut call = call(it);
        if let Some(members) = provider_members.next() {
            add(&mut call, members);
        }
        call
    })
}

fn add(value: &mut Value, members: &Map<String, Value>) {
    for (name, member) in members {
        value[name] = member.clone();
    }
}

fn call(call: &ToolCall) -> Value {
    json!({
        "id": call.id,
        "type": "function",
        "function": {"name": call.name, "arguments": arguments(call)},
    })
}

/// Returns the arguments as JSON text; empty arguments become `{}`.
fn arguments(call: &ToolCall) -> String {
    match &call.arguments {
        Value::String(text) if !text.trim().is_empty() => text.clone(),
        Value::Null | Value::String(_) => "{}".to_owned(),
        arguments => arguments.to_string(),
    }
}

/// Returns the token usage of a chat.
pub(super) fn cost(usage: &ChatUsage) -> Value {
    json!({
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.input_tokens.saturating_add(usage.output_tokens),
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
    })
}

/// Returns the finish reason, limited to the values that typed clients accept.
pub(super) fn reason(ended: &ChatOutcome) -> &str {
    match ended.response.finish_reason.as_deref() {
        Some(reason @ ("length" | "content_filter")) => reason,
        _ if ended.calls.is_empty() => "stop",
        _ => "tool_calls",
    }
}

/// Returns the current time, in seconds since 1970.
pub(super) fn now() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map(|now| now.as_secs()).unwrap_or_default()
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
        assert_eq!(cost(&usage)["total_tokens"], u64::MAX);
    }
}
