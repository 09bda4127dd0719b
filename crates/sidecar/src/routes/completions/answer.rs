//! Chat completion responses in OpenAI's format.

use std::time::{SystemTime, UNIX_EPOCH};

use pillion_core::tool::ToolCall;
use pillion_wire::ChatUsage;
use serde_json::{Map, Value, json};

use crate::chat::Ended;

/// Returns the whole response.
pub(super) fn of(ended: &Ended) -> Value {
    let answer = &ended.answer;
    let content = answer.content.as_deref().unwrap_or_default();
    let is_refusal = ended.ending.is_refusal;
    let mut message = match is_refusal {
        true => json!({"role": "assistant", "content": null, "refusal": content}),
        false => json!({"role": "assistant", "content": content, "refusal": null}),
    };
    if !ended.calls.is_empty() {
        if content.is_empty() {
            message["content"] = Value::Null;
        }
        message["tool_calls"] = calls(ended).collect();
    }
    add(&mut message, &ended.provider_members.message);
    json!({
        "id": format!("chatcmpl-{}", answer.id),
        "object": "chat.completion",
        "created": now(),
        "model": answer.model,
        "choices": [{
            "index": 0,
            "message": message,
            "logprobs": null,
            "finish_reason": if is_refusal { "stop" } else { reason(ended) },
        }],
        "usage": cost(&answer.usage),
    })
}

/// Returns the calls that the client must run, with the provider-specific fields that the client
/// must send back with each call.
pub(super) fn calls(ended: &Ended) -> impl Iterator<Item = Value> {
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
pub(super) fn reason(ended: &Ended) -> &str {
    match ended.answer.finish_reason.as_deref() {
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
