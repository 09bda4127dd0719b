use crate::Provider::{self, Anthropic, Google, OpenAiChat as Chat, OpenAiResponses as Responses};
use serde_json::{Value, json};

use super::anthropic::events as anthropic_events;
use super::openai_chat::{call_delta, chunk, done, usage_chunk};

pub(in super::super) fn broken_streams() -> Vec<(Provider, &'static str, Vec<Value>)> {
    let text = |reason: Value| chunk(json!({"content": "You must never "}), reason);
    let part = |reason: Value| json!({"candidates": [{"content": {"parts": [{"text": "You must never "}]}, "finishReason": reason}]});
    let unending = anthropic_events(
        json!({"type": "text", "text": "You must never "}),
        &[],
        json!("end_turn"),
        &[],
    );
    let mut unclosed = unending[..unending.len() - 1].to_vec();
    unclosed.retain(|event| event["type"] != "content_block_stop");
    let without_reason = |reason: Value| {
        let start = json!({"type": "text", "text": "You must never "});
        let mut events = anthropic_events(start, &[], reason, &[]);
        events.pop();
        events
    };
    let mut late = unending;
    let after = json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "x"}});
    late.insert(late.len() - 1, after);
    vec![
        (Chat, "empty reasons", vec![text(json!(""))]),
        (Chat, "the word null", vec![text(json!("null"))]),
        (Chat, "no string", vec![text(json!(true)), text(json!({}))]),
        (Chat, "unknown reason", vec![text(json!("bored"))]),
        (
            Chat,
            "empty reasons in a call",
            vec![chunk(call_delta("{\"sides\":"), json!(""))],
        ),
        (
            Chat,
            "text after the reason",
            vec![text(json!("stop")), text(json!(null))],
        ),
        (Chat, "nothing but [DONE]", vec![done()]),
        (Chat, "no choice", vec![usage_chunk(), done()]),
        (
            Chat,
            "content of another type",
            vec![
                chunk(json!({"content": {"text": "x"}}), json!("stop")),
                done(),
            ],
        ),
        (
            Responses,
            "no end",
            vec![json!({"type": "response.output_text.delta", "delta": "You must never "})],
        ),
        (
            Responses,
            "no end after a complete text",
            vec![json!({"type": "response.output_text.done", "text": "You must never "})],
        ),
        (
            Responses,
            "no response",
            vec![json!({"type": "response.completed", "response": null})],
        ),
        (
            Responses,
            "no output",
            vec![
                json!({"type": "response.output_item.done", "item": {"type": "function_call", "call_id": "k1", "name": "roll", "arguments": "{}"}}),
                json!({"type": "response.output_item.added", "item": {"type": "function_call", "call_id": "k2", "name": "roll", "arguments": ""}}),
                json!({"type": "response.completed", "response": {"status": "completed", "output": []}}),
            ],
        ),
        (Anthropic, "no message_stop and an open block", unclosed),
        (
            Anthropic,
            "no message_stop and no reason",
            without_reason(json!(null)),
        ),
        (
            Anthropic,
            "no message_stop and an unknown reason",
            without_reason(json!("bored")),
        ),
        (Anthropic, "a delta after the end of its block", late),
        (Google, "no reason", vec![part(json!(null))]),
        (Google, "empty reason", vec![part(json!(""))]),
        (
            Google,
            "unspecified",
            vec![part(json!("FINISH_REASON_UNSPECIFIED"))],
        ),
        (Google, "unknown reason", vec![part(json!("BORED"))]),
        (
            Google,
            "no reason in an array",
            vec![json!([part(json!(null))])],
        ),
        (
            Google,
            "empty block reason",
            vec![json!({"promptFeedback": {"blockReason": ""}})],
        ),
        (
            Google,
            "text after the reason",
            vec![part(json!("STOP")), part(json!(null))],
        ),
    ]
}
