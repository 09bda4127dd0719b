//! Answers in OpenAI's shape.

use std::time::{SystemTime, UNIX_EPOCH};

use pillion_wire::{ChatAnswer, ChatUsage};
use serde_json::{Value, json};

/// The answer of a chat.
pub(super) fn of(answer: &ChatAnswer) -> Value {
    let message = json!({"role": "assistant", "content": answer.content, "refusal": null});
    let reason = answer.finish_reason.as_deref().unwrap_or("stop");
    completion(
        &answer.id,
        &answer.model,
        &message,
        of_words(reason),
        &answer.usage,
    )
}

/// A completion with one choice.
pub(super) fn completion(
    id: &str,
    model: &str,
    message: &Value,
    reason: &str,
    usage: &ChatUsage,
) -> Value {
    json!({
        "id": format!("chatcmpl-{id}"),
        "object": "chat.completion",
        "created": now(),
        "model": model,
        "choices": [{
            "index": 0,
            "message": message,
            "logprobs": null,
            "finish_reason": known(reason),
        }],
        "usage": cost(usage),
    })
}

/// What a chat has cost.
pub(super) fn cost(usage: &ChatUsage) -> Value {
    json!({
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.input_tokens + usage.output_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
    })
}

/// Of an answer whose calls ran here, if they did: the client has none to run.
pub(super) fn of_words(reason: &str) -> &str {
    match reason {
        "tool_calls" => "stop",
        other => other,
    }
}

/// Clients with types know these reasons and no others.
pub(super) fn known(reason: &str) -> &str {
    match reason {
        "length" | "tool_calls" | "content_filter" => reason,
        _ => "stop",
    }
}

/// In seconds since 1970.
pub(super) fn now() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map(|now| now.as_secs()).unwrap_or_default()
}
