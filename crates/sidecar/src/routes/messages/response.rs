//! Message responses in Anthropic's format.

use pillion_core::tool::ToolCall;
use pillion_wire::ChatUsage;
use serde_json::{Value, json};

use pillion_management::chat::ChatOutcome;

/// Returns the complete message.
pub(super) fn from_outcome(outcome: &ChatOutcome) -> Value {
    let response = &outcome.response;
    let text = response.content.iter().filter(|text| !text.is_empty());
    let blocks = text.map(|text| json!({"type": "text", "text": text}));
    let mut message = empty_message(&response.id, &response.model);
    message["content"] = blocks
        .chain(outcome.calls.iter().map(format_call))
        .collect();
    message["stop_reason"] = json!(stop_reason(outcome));
    message["stop_sequence"] = json!(stop_sequence(outcome));
    message["usage"] = usage_json(&response.usage);
    message
}

/// Returns a message without content.
pub(super) fn empty_message(id: &str, model: &str) -> Value {
    json!({
        "id": format!("msg_{id}"),
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [],
        "stop_reason": null,
        "stop_sequence": null,
        "usage": usage_json(&ChatUsage::default()),
    })
}

/// Returns the `tool_use` block of a call that the client must run.
pub(super) fn format_call(call: &ToolCall) -> Value {
    json!({
        "type": "tool_use",
        "id": call.id,
        "name": call.name,
        "input": call.arguments_object(),
    })
}

/// Returns the token usage of a chat. Anthropic's `input_tokens` excludes cached tokens.
pub(super) fn usage_json(usage: &ChatUsage) -> Value {
    json!({
        "input_tokens": usage.input_tokens.saturating_sub(usage.cached_tokens),
        "output_tokens": usage.output_tokens,
        "cache_read_input_tokens": usage.cached_tokens,
        "cache_creation_input_tokens": 0,
    })
}

/// Returns the stop reason.
pub(super) fn stop_reason(outcome: &ChatOutcome) -> &'static str {
    match outcome.response.finish_reason.as_deref() {
        Some("length") => "max_tokens",
        Some("content_filter") => "refusal",
        _ if stop_sequence(outcome).is_some() => "stop_sequence",
        _ if outcome.calls.is_empty() => "end_turn",
        _ => "tool_use",
    }
}

/// Returns the stop sequence that ended the response, if the provider reports one.
pub(super) fn stop_sequence(outcome: &ChatOutcome) -> Option<&str> {
    let text = outcome.ending.stop_sequence.as_deref();
    text.filter(|_| outcome.calls.is_empty())
}
