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
    let cut_call = chunk(call_delta("{\"sides\":"), json!(""));
    let object_content = chunk(json!({"content": {"text": "x"}}), json!("stop"));
    let responses_event = |kind: &str, member: &str, value: Value| json!({"type": format!("response.{kind}"), member: value});
    let words = || json!("You must never ");
    let item = |id: &str, arguments: &str| json!({"type": "function_call", "call_id": id, "name": "roll", "arguments": arguments});
    let no_output = vec![
        responses_event("output_item.done", "item", item("k1", "{}")),
        responses_event("output_item.added", "item", item("k2", "")),
        responses_event(
            "completed",
            "response",
            json!({"status": "completed", "output": []}),
        ),
    ];
    let piece = responses_event("output_text.delta", "delta", words());
    let whole_text = responses_event("output_text.done", "text", words());
    let no_response = responses_event("completed", "response", json!(null));
    let open_block = "no message_stop and an open block";
    let no_reason = "no message_stop and no reason";
    let unknown_reason = "no message_stop and an unknown reason";
    let unspecified = part(json!("FINISH_REASON_UNSPECIFIED"));
    let array = json!([part(json!(null))]);
    let empty_block = json!({"promptFeedback": {"blockReason": ""}});
    let text_after = vec![text(json!("stop")), text(json!(null))];
    let part_after = vec![part(json!("STOP")), part(json!(null))];
    vec![
        (Chat, "empty reasons", vec![text(json!(""))]),
        (Chat, "the word null", vec![text(json!("null"))]),
        (Chat, "no string", vec![text(json!(true)), text(json!({}))]),
        (Chat, "unknown reason", vec![text(json!("bored"))]),
        (Chat, "empty reasons in a call", vec![cut_call]),
        (Chat, "text after the reason", text_after),
        (Chat, "nothing but [DONE]", vec![done()]),
        (Chat, "no choice", vec![usage_chunk(), done()]),
        (Chat, "no text", vec![object_content, done()]),
        (Responses, "no end", vec![piece]),
        (Responses, "no end after a whole text", vec![whole_text]),
        (Responses, "no response", vec![no_response]),
        (Responses, "no output", no_output),
        (Anthropic, open_block, unclosed),
        (Anthropic, no_reason, without_reason(json!(null))),
        (Anthropic, unknown_reason, without_reason(json!("bored"))),
        (Anthropic, "a delta after the end of its block", late),
        (Google, "no reason", vec![part(json!(null))]),
        (Google, "empty reason", vec![part(json!(""))]),
        (Google, "unspecified", vec![unspecified]),
        (Google, "unknown reason", vec![part(json!("BORED"))]),
        (Google, "no reason in an array", vec![array]),
        (Google, "empty block reason", vec![empty_block]),
        (Google, "text after the reason", part_after),
    ]
}
