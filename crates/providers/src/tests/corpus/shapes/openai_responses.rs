use serde_json::{Value, json};

use super::Shape;
use crate::Finish;

pub(super) fn streams() -> Vec<Shape> {
    let message = |text: &str| json!({"type": "message", "id": "m1", "status": "completed", "role": "assistant", "content": [{"type": "output_text", "text": text, "annotations": []}]});
    let call = |status: &str| json!({"type": "function_call", "id": "f1", "status": status, "call_id": "k1", "name": "roll", "arguments": "{\"sides\":6}"});
    let text = |text: &str| json!({"type": "response.output_text.delta", "output_index": 0, "delta": text});
    let item_done = |item: &Value| json!({"type": "response.output_item.done", "output_index": 0, "item": item});
    let end = |status: &str, reason: Value, output: Value| {
        json!({"type": format!("response.{status}"),
        "response": {"id": "r1", "status": status, "error": null, "incomplete_details": reason, "output": output}})
    };
    let created = || json!({"type": "response.created", "response": {"id": "r1", "status": "in_progress", "output": []}});
    let arguments = |piece: &str| json!({"type": "response.function_call_arguments.delta", "output_index": 0, "delta": piece});
    let added = || {
        json!({"type": "response.output_item.added", "output_index": 0,
        "item": {"type": "function_call", "call_id": "k1", "name": "roll", "arguments": ""}})
    };
    let max = || json!({"reason": "max_output_tokens"});
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
        events.push(end("completed", json!(null), json!([])));
        Shape {
            name,
            events,
            text: "You can.",
            calls: vec![("roll", six()), ("roll", six())],
            finish: Finish::ToolCalls,
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
                end(
                    "completed",
                    json!(null),
                    json!([reasoning, message("You can.")]),
                ),
            ],
            "You can.",
            Finish::Stop,
        ),
        Shape::text(
            "refusal",
            vec![
                json!({"type": "response.refusal.delta", "delta": "I won't."}),
                end("completed", json!(null), json!([refusal])),
            ],
            "I won't.",
            Finish::Filtered,
        ),
        Shape::text(
            "no final output",
            vec![
                text("You can."),
                item_done(&message("You can.")),
                end("completed", json!(null), json!([])),
            ],
            "You can.",
            Finish::Stop,
        ),
        Shape::text(
            "only streamed text",
            vec![
                text("You "),
                text("can."),
                json!({"type": "response.output_text.done", "output_index": 0, "text": "You can."}),
                end("completed", json!(null), json!([])),
            ],
            "You can.",
            Finish::Stop,
        ),
        Shape::text(
            "only complete text",
            vec![
                json!({"type": "response.output_text.done", "text": "You can."}),
                json!({"type": "response.output_text.done", "text": "You can."}),
                json!({"type": "response.completed", "response": {"status": "completed"}}),
            ],
            "You can.",
            Finish::Stop,
        ),
        Shape::text(
            "only streamed refusal",
            vec![
                json!({"type": "response.refusal.delta", "delta": "I won't."}),
                end("completed", json!(null), json!([])),
            ],
            "I won't.",
            Finish::Filtered,
        ),
        Shape::text(
            "response.done",
            vec![
                text("You can."),
                json!({"type": "response.done", "response": {"output": [message("You can.")]}}),
            ],
            "You can.",
            Finish::Stop,
        ),
        Shape::text(
            "response.done of an incomplete response",
            vec![
                text("You "),
                json!({"type": "response.done", "response": {"status": "incomplete", "incomplete_details": max(), "output": [message("You ")]}}),
            ],
            "You ",
            Finish::Length,
        ),
        two_calls("two calls with one index", json!(0)),
        two_calls("two calls without indices", json!(null)),
        Shape::text(
            "no final status",
            vec![
                text("You "),
                json!({"type": "response.completed", "response": {"output": [message("You ")]}}),
            ],
            "You ",
            Finish::Stop,
        ),
        Shape::text(
            "a stale status",
            vec![
                text("You "),
                json!({"type": "response.completed", "response": {"status": "in_progress", "output": [message("You ")]}}),
            ],
            "You ",
            Finish::Stop,
        ),
        Shape::text(
            "length",
            vec![
                text("You "),
                end("incomplete", max(), json!([message("You ")])),
            ],
            "You ",
            Finish::Length,
        ),
        Shape::text(
            "incomplete without status",
            vec![
                text("You "),
                json!({"type": "response.incomplete", "response": {"output": [message("You ")]}}),
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
                end("completed", json!(null), json!([call("completed")])),
            ],
            six(),
            Finish::ToolCalls,
        ),
        Shape::call(
            "call cut by length",
            vec![
                added(),
                arguments("{\"sides\":6}"),
                end("incomplete", max(), json!([call("incomplete")])),
            ],
            six(),
            Finish::Length,
        ),
        Shape::call(
            "incomplete call",
            vec![
                added(),
                end("completed", json!(null), json!([call("incomplete")])),
            ],
            six(),
            Finish::Length,
        ),
        Shape::call(
            "incomplete without reason",
            vec![
                added(),
                json!({"type": "response.incomplete", "response": {"output": [call("completed")]}}),
            ],
            six(),
            Finish::Length,
        ),
    ]
}
