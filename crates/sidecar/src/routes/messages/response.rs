//! Message responses in Anthropic's format.

use pillion_core::tool::ToolCall;
use pillion_wire::ChatUsage;
use serde_json::{Value, json};

use crate::chat::ChatOutcome;

/// Returns the complete message.
pub(super) fn from_outcome(ended: &ChatOutcome) -> Value {
    let response = &ended.response;
    let text = response.content.iter().filter(|text| !text.is_empty());
    let blocks = text.map(|text| json!({"type": "text", "text": text}));
    let mut message = head(&response.id, &response.model);
    message["content"] = blocks.chain(ended.calls.iter().map(call)).collect();
    message["stop_reason"] = json!(stop_reason(ended));
    message["stop_sequence"] = json!(stop_sequence(ended));
    message["usage"] = cost(&response.usage);
    message
}

/// Returns a message without content.
pub(super) fn head(id: &str, model: &str) -> Value {
    json!({
        "id": format!("msg_{id}"),
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [],
        "stop_reason": null,
        "stop_sequence": null,
        "usage": cost(&ChatUsage::default()),
    })
}

/// Returns a call that the client must run.
pub(super) fn call(call: &ToolCall) -> Value {
    json!({
        "type": "tool_use",
        "id": call.id,
        "name": call.name,
        "input": call.arguments_object(),
    })
}

/// Returns the token usage of a chat. Anthropic's `input_tokens` excludes cached tokens.
pub(super) fn cost(usage: &ChatUsage) -> Value {
    json!({
        "input_tokens": usage.input_tokens.saturating_sub(usage.cached_tokens),
        "output_tokens": usage.output_tokens,
        "cache_read_input_tokens": usage.cached_tokens,
        "cache_creation_input_tokens": 0,
    })
}

/// Returns the stop reason.
pub(super) fn stop_reason(ended: &ChatOutcome) -> &'static str {
    match ended.response.finish_reason.as_deref() {
        Some("length") => "max_tokens",
        Some("content_filter") => "refusal",
        _ if stop_sequence(ended).is_some() => "stop_sequence",
        _ if ended.calls.is_empty() => "end_turn",
        _ => "tool_use",
    }
}

/// Returns the stop sequence that ended the answer, if the provider reports one.
pub(super) fn stop_sequence(ended: &ChatOutcome) -> Option<&str> {
    let text = ended.ending.stop_sequence.as_deref();
    text.filter(|_| ended.calls.is_empty())
}
