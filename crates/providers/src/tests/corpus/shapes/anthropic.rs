use serde_json::{Value, json};

use super::Shape;
use crate::Finish::{self, Filtered, Length, Stop, ToolCalls};

#[expect(
    clippy::needless_pass_by_value,
    reason = "callers write the values in place"
)]
pub(super) fn events(start: Value, pieces: &[Value], reason: Value, after: &[Value]) -> Vec<Value> {
    let mut events = vec![
        json!({"type": "message_start", "message": {"id": "m1", "role": "assistant", "content": [], "stop_reason": null, "usage": {"input_tokens": 3, "output_tokens": 1}}}),
        json!({"type": "ping"}),
        json!({"type": "content_block_start", "index": 0, "content_block": start}),
    ];
    events.extend(
        pieces
            .iter()
            .map(|delta| json!({"type": "content_block_delta", "index": 0, "delta": delta})),
    );
    events.push(json!({"type": "content_block_stop", "index": 0}));
    events.push(json!({"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": null}, "usage": {"output_tokens": 4}}));
    events.extend_from_slice(after);
    events.push(json!({"type": "message_stop"}));
    events
}

pub(super) fn streams() -> Vec<Shape> {
    let pieces = [
        json!({"type": "text_delta", "text": "You "}),
        json!({"type": "text_delta", "text": "can."}),
    ];
    let text = |reason: Value, after: &[Value]| {
        events(json!({"type": "text", "text": ""}), &pieces, reason, after)
    };
    let tool_use = || json!({"type": "tool_use", "id": "k1", "name": "roll", "input": {}});
    let input = [
        json!({"type": "input_json_delta", "partial_json": ""}),
        json!({"type": "input_json_delta", "partial_json": "{\"sides\":"}),
        json!({"type": "input_json_delta", "partial_json": "6}"}),
    ];
    let call = |reason: Value, after: &[Value]| events(tool_use(), &input, reason, after);
    let later = |reason: Value| {
        [
            json!({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 5}}),
        ]
    };
    let six = || json!({"sides": 6});
    let unclosed = || {
        let mut events = events(tool_use(), &[], json!("tool_use"), &[]);
        events.retain(|event| event["type"] != "content_block_stop");
        events
    };
    // Returns a stream with a text and a call that have these indices.
    let indexed = |name: &'static str, indices: [Value; 2]| {
        let mut all = text(json!("tool_use"), &[]);
        let mut call = call(json!("tool_use"), &[]);
        let is_of_block = |event: &&mut Value| event.get("index").is_some();
        for event in all.iter_mut().filter(is_of_block) {
            event["index"] = indices[0].clone();
        }
        for event in call.iter_mut().filter(is_of_block) {
            event["index"] = indices[1].clone();
        }
        let stop_of_no_block = json!({"type": "content_block_stop", "index": 7});
        let blocks = call.drain(2..call.len() - 2);
        let end = all.len() - 2;
        all.splice(end..end, blocks.chain([stop_of_no_block]));
        Shape {
            name,
            events: all,
            text: "You can.",
            calls: vec![("roll", six())],
            finish: ToolCalls,
        }
    };
    let without_stop = |last: &[Value]| {
        let mut events = text(json!("end_turn"), &[]);
        events.pop();
        events.extend_from_slice(last);
        events
    };
    let null_pieces = [
        json!({"type": "text_delta", "text": "You can."}),
        json!({"type": "text_delta", "text": null}),
    ];
    let null_text = events(
        json!({"type": "text", "text": ""}),
        &null_pieces,
        json!("end_turn"),
        &[],
    );
    let null_input = [
        json!({"type": "input_json_delta", "partial_json": null}),
        json!({"type": "input_json_delta", "partial_json": "{\"sides\":6}"}),
    ];
    let null_arguments = events(tool_use(), &null_input, json!("tool_use"), &[]);
    let thinking = [
        json!({"type": "thinking_delta", "thinking": "Hm"}),
        json!({"type": "signature_delta", "signature": "c2ln"}),
    ];
    let thoughts = events(
        json!({"type": "thinking", "thinking": "", "signature": ""}),
        &thinking,
        json!("max_tokens"),
        &[],
    );
    let after_max = |reason: Value| text(json!("max_tokens"), &later(reason));
    let cut_call = call(json!("max_tokens"), &later(json!("tool_use")));
    let done = || without_stop(&[json!("[DONE]")]);
    let paused = Finish::Other("pause_turn".to_owned());
    let texts = [
        ("null as text", null_text, Stop),
        ("no message_stop", without_stop(&[]), Stop),
        ("[DONE] instead of message_stop", done(), Stop),
        ("text", text(json!("end_turn"), &[]), Stop),
        ("empty reason", text(json!(""), &[]), Stop),
        ("no reason", text(json!(null), &[]), Stop),
        ("empty after max_tokens", after_max(json!("")), Length),
        ("null after max_tokens", after_max(json!(null)), Length),
        ("another reason", after_max(json!("end_turn")), Length),
        ("paused", text(json!("pause_turn"), &[]), paused),
        ("refusal", text(json!("refusal"), &[]), Filtered),
    ];
    let calls = [
        ("null as arguments", null_arguments, ToolCalls),
        ("call", call(json!("tool_use"), &[]), ToolCalls),
        ("empty reason of a call", call(json!(""), &[]), ToolCalls),
        ("call cut by length", cut_call, Length),
        ("unknown reason", call(json!("bored"), &[]), Length),
    ];
    let mut shapes = vec![
        indexed("indices with a gap", [json!(0), json!(2)]),
        indexed("indices from 1", [json!(1), json!(2)]),
        indexed("descending indices", [json!(3), json!(0)]),
        indexed("an index that is used again", [json!(0), json!(0)]),
        indexed("no indices", [json!(null), json!(null)]),
        Shape::text("thinking", thoughts, "", Length),
        Shape::call("call without its end", unclosed(), json!({}), Length),
    ];
    shapes
        .extend(texts.map(|(name, events, finish)| Shape::text(name, events, "You can.", finish)));
    shapes.extend(calls.map(|(name, events, finish)| Shape::call(name, events, six(), finish)));
    shapes
}
