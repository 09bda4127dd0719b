use serde_json::{Value, json};

use super::Shape;
use crate::Finish::{self, Filtered, Length, Stop, ToolCalls};

pub(super) fn streams() -> Vec<Shape> {
    let message = |text: &str| json!({"type": "message", "id": "m1", "status": "completed", "role": "assistant", "content": [{"type": "output_text", "text": text, "annotations": []}]});
    let call = |status: &str| json!({"type": "function_call", "id": "f1", "status": status, "call_id": "k1", "name": "roll", "arguments": "{\"sides\":6}"});
    let text = |text: &str| json!({"type": "response.output_text.delta", "output_index": 0, "delta": text});
    let item_done = |item: &Value| json!({"type": "response.output_item.done", "output_index": 0, "item": item});
    let max = || json!({"reason": "max_output_tokens"});
    let end = |status: &str, reason: Value, output: Value| {
        json!({"type": format!("response.{status}"),
        "response": {"id": "r1", "status": status, "error": null, "incomplete_details": reason, "output": output}})
    };
    let completed = |output: Value| end("completed", json!(null), output);
    let incomplete = |output: Value| end("incomplete", max(), output);
    let last = |kind: &str, response: Value| json!({"type": format!("response.{kind}"), "response": response});
    let refusal_delta = || json!({"type": "response.refusal.delta", "delta": "I won't."});
    let created = || json!({"type": "response.created", "response": {"id": "r1", "status": "in_progress", "output": []}});
    let arguments = |piece: &str| json!({"type": "response.function_call_arguments.delta", "output_index": 0, "delta": piece});
    let added = || {
        json!({"type": "response.output_item.added", "output_index": 0,
        "item": {"type": "function_call", "call_id": "k1", "name": "roll", "arguments": ""}})
    };
    let six = || json!({"sides": 6});
    let refusal =
        json!({"type": "message", "content": [{"type": "refusal", "refusal": "I won't."}]});
    let reasoning = json!({"type": "reasoning", "id": "rs1", "summary": []});
    let two_calls = |name: &'static str, index: Value| {
        let mut events = vec![text("You can."), item_done(&message("You can."))];
        for id in ["k1", "k2"] {
            let item = |arguments: &str| json!({"type": "function_call", "call_id": id, "name": "roll", "arguments": arguments});
            events.extend([
                json!({"type": "response.output_item.added", "output_index": index, "item": item("")}),
                json!({"type": "response.function_call_arguments.delta", "output_index": index, "delta": "{\"sides\":"}),
                json!({"type": "response.function_call_arguments.delta", "output_index": index, "delta": "6}"}),
                json!({"type": "response.output_item.done", "output_index": index, "item": item("{\"sides\":6}")}),
            ]);
        }
        events.push(completed(json!([])));
        Shape {
            name,
            events,
            text: "You can.",
            calls: vec![("roll", six()), ("roll", six())],
            finish: ToolCalls,
        }
    };
    vec![
        Shape::text(
            "text",
            vec![
                created(),
                text("You "),
                text("can."),
                item_done(&message("You can.")),
                completed(json!([reasoning, message("You can.")])),
            ],
            "You can.",
            Stop,
        ),
        Shape::text(
            "refusal",
            vec![refusal_delta(), completed(json!([refusal]))],
            "I won't.",
            Filtered,
        ),
        Shape::text(
            "no final output",
            vec![
                text("You can."),
                item_done(&message("You can.")),
                completed(json!([])),
            ],
            "You can.",
            Stop,
        ),
        Shape::text(
            "only streamed text",
            vec![
                text("You "),
                text("can."),
                json!({"type": "response.output_text.done", "output_index": 0, "text": "You can."}),
                completed(json!([])),
            ],
            "You can.",
            Stop,
        ),
        Shape::text(
            "only complete text",
            vec![
                json!({"type": "response.output_text.done", "text": "You can."}),
                json!({"type": "response.output_text.done", "text": "You can."}),
                last("completed", json!({"status": "completed"})),
            ],
            "You can.",
            Stop,
        ),
        Shape::text(
            "only streamed refusal",
            vec![refusal_delta(), completed(json!([]))],
            "I won't.",
            Filtered,
        ),
        Shape::text(
            "response.done",
            vec![
                text("You can."),
                last("done", json!({"output": [message("You can.")]})),
            ],
            "You can.",
            Stop,
        ),
        Shape::text(
            "response.done of an incomplete response",
            vec![
                text("You "),
                last(
                    "done",
                    json!({"status": "incomplete", "incomplete_details": max(), "output": [message("You ")]}),
                ),
            ],
            "You ",
            Length,
        ),
        two_calls("two calls with one index", json!(0)),
        two_calls("two calls without indices", json!(null)),
        Shape::text(
            "no final status",
            vec![
                text("You "),
                last("completed", json!({"output": [message("You ")]})),
            ],
            "You ",
            Stop,
        ),
        Shape::text(
            "a stale status",
            vec![
                text("You "),
                last(
                    "completed",
                    json!({"status": "in_progress", "output": [message("You ")]}),
                ),
            ],
            "You ",
            Stop,
        ),
        Shape::text(
            "length",
            vec![text("You "), incomplete(json!([message("You ")]))],
            "You ",
            Length,
        ),
        Shape::text(
            "incomplete without status",
            vec![
                text("You "),
                last("incomplete", json!({"output": [message("You ")]})),
            ],
            "You ",
            Finish::Other("incomplete".to_owned()),
        ),
        Shape::call(
            "call",
            vec![
                created(),
                added(),
                arguments("{\"sides\""),
                arguments(":6}"),
                item_done(&call("completed")),
                completed(json!([call("completed")])),
            ],
            six(),
            ToolCalls,
        ),
        Shape::call(
            "call cut by length",
            vec![
                added(),
                arguments("{\"sides\":6}"),
                incomplete(json!([call("incomplete")])),
            ],
            six(),
            Length,
        ),
        Shape::call(
            "incomplete call",
            vec![added(), completed(json!([call("incomplete")]))],
            six(),
            Length,
        ),
        Shape::call(
            "incomplete without reason",
            vec![
                added(),
                last("incomplete", json!({"output": [call("completed")]})),
            ],
            six(),
            Length,
        ),
    ]
}
