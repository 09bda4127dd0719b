use serde_json::{Value, json};

use super::Shape;
use crate::Finish;

pub(super) fn done() -> Value {
    json!("[DONE]")
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "callers write the values in place"
)]
pub(super) fn chunk(delta: Value, reason: Value) -> Value {
    json!({"id": "c1", "object": "chat.completion.chunk",
        "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]})
}

pub(super) fn call_delta(arguments: &str) -> Value {
    json!({"tool_calls": [{"index": 0, "id": "k1", "type": "function",
        "function": {"name": "roll", "arguments": arguments}}]})
}

fn more_arguments(arguments: &str) -> Value {
    json!({"tool_calls": [{"index": 0, "function": {"arguments": arguments}}]})
}

pub(super) fn usage_chunk() -> Value {
    json!({"id": "c1", "choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 4}})
}

pub(super) fn streams() -> Vec<Shape> {
    let text = |text: &str| chunk(json!({"content": text}), json!(null));
    let end = |reason: &str| chunk(json!({}), json!(reason));
    let start = || {
        chunk(
            json!({"role": "assistant", "content": "", "refusal": null}),
            json!(null),
        )
    };
    let six = || json!({"sides": 6});
    let mut shapes = vec![
        Shape::text(
            "text",
            vec![
                start(),
                text("You "),
                text("can."),
                end("stop"),
                usage_chunk(),
                done(),
            ],
            "You can.",
            Finish::Stop,
        ),
        Shape::text(
            "no [DONE]",
            vec![
                text("You "),
                chunk(json!({"content": "can."}), json!("stop")),
            ],
            "You can.",
            Finish::Stop,
        ),
        Shape::text(
            "refusal",
            vec![
                chunk(json!({"refusal": "I "}), json!(null)),
                chunk(json!({"refusal": "won't."}), json!(null)),
                end("stop"),
                done(),
            ],
            "I won't.",
            Finish::Filtered,
        ),
        Shape::text(
            "thinking",
            vec![
                chunk(
                    json!({"reasoning_content": "Hm", "content": null}),
                    json!(null),
                ),
                text("Yes."),
                end("stop"),
                done(),
            ],
            "Yes.",
            Finish::Stop,
        ),
        Shape::text(
            "parts",
            vec![
                chunk(
                    json!({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "Hm"}]}]}),
                    json!(null),
                ),
                chunk(
                    json!({"content": [{"type": "text", "text": "You "}]}),
                    json!(null),
                ),
                text("can "),
                chunk(
                    json!({"content": [{"type": "text", "text": "roll."}]}),
                    json!(null),
                ),
                end("stop"),
                done(),
            ],
            "You can roll.",
            Finish::Stop,
        ),
        Shape::text(
            "length",
            vec![text("You "), end("length"), usage_chunk(), done()],
            "You ",
            Finish::Length,
        ),
        Shape::text(
            "filtered",
            vec![text("You "), end("content_filter"), done()],
            "You ",
            Finish::Filtered,
        ),
        Shape::text(
            "whole message",
            vec![
                json!({"choices": [{"message": {"role": "assistant", "content": "Yes."}, "finish_reason": "stop"}]}),
                done(),
            ],
            "Yes.",
            Finish::Stop,
        ),
        Shape::text(
            "other choices",
            vec![
                text("Yes."),
                json!({"choices": [{"index": 1, "delta": {"content": "No."}, "finish_reason": "stop"}]}),
                end("stop"),
                done(),
            ],
            "Yes.",
            Finish::Stop,
        ),
        Shape::call(
            "call",
            vec![
                start(),
                chunk(call_delta(""), json!(null)),
                chunk(more_arguments("{\"sides\""), json!(null)),
                chunk(more_arguments(":6}"), json!(null)),
                end("tool_calls"),
                done(),
            ],
            six(),
            Finish::ToolCalls,
        ),
        Shape::call(
            "call that stops",
            vec![
                chunk(call_delta("{\"sides\":6}"), json!(null)),
                end("stop"),
                done(),
            ],
            six(),
            Finish::ToolCalls,
        ),
        Shape::call(
            "call cut by length",
            vec![
                chunk(call_delta("{\"sides\":6}"), json!(null)),
                end("length"),
                done(),
            ],
            six(),
            Finish::Length,
        ),
        Shape::call(
            "unknown reason",
            vec![
                chunk(call_delta("{\"sides\":6}"), json!(null)),
                end("bored"),
                done(),
            ],
            six(),
            Finish::Length,
        ),
        Shape::text(
            "unknown reason, text",
            vec![text("Yes."), end("bored"), done()],
            "Yes.",
            Finish::Other("bored".to_owned()),
        ),
    ];
    for (empty, names) in [
        (
            json!(""),
            [
                "empty reasons",
                "empty reason after length",
                "[DONE] after empty reasons",
                "call with empty reasons",
            ],
        ),
        (
            json!("null"),
            [
                "the word null",
                "null after length",
                "[DONE] after the word null",
                "call with the word null",
            ],
        ),
        (
            json!(false),
            [
                "false",
                "false after length",
                "[DONE] after false",
                "call with false",
            ],
        ),
    ] {
        let text = |text: &str| chunk(json!({"content": text}), empty.clone());
        let call = |delta: Value| chunk(delta, empty.clone());
        let nothing = || chunk(json!({}), empty.clone());
        shapes.extend([
            Shape::text(
                names[0],
                vec![text("You "), text("can."), end("stop"), nothing(), done()],
                "You can.",
                Finish::Stop,
            ),
            Shape::text(
                names[1],
                vec![text("You "), end("length"), nothing(), done()],
                "You ",
                Finish::Length,
            ),
            Shape::text(
                names[2],
                vec![text("You "), text("can."), done()],
                "You can.",
                Finish::Stop,
            ),
            Shape::call(
                names[3],
                vec![
                    call(call_delta("")),
                    call(more_arguments("{\"sides\":6}")),
                    nothing(),
                    done(),
                ],
                six(),
                Finish::ToolCalls,
            ),
        ]);
    }
    for (name, placeholder) in [
        ("an empty object before the arguments", "{}"),
        ("null before the arguments", "null"),
    ] {
        let events = vec![
            chunk(call_delta(placeholder), json!(null)),
            chunk(more_arguments("{\"sides\""), json!(null)),
            chunk(more_arguments(":6}"), json!(null)),
            end("tool_calls"),
            done(),
        ];
        shapes.push(Shape::call(name, events, six(), Finish::ToolCalls));
    }
    shapes.push(Shape::call(
        "the arguments twice",
        vec![
            chunk(call_delta("{\"sides\""), json!(null)),
            chunk(more_arguments(":6}"), json!(null)),
            chunk(more_arguments("{\"sides\":6}"), json!(null)),
            end("tool_calls"),
            done(),
        ],
        six(),
        Finish::ToolCalls,
    ));
    let call_without_id = |sides: u64| {
        let arguments = json!({"sides": sides}).to_string();
        let function = json!({"name": "roll", "arguments": arguments});
        chunk(
            json!({"tool_calls": [{"index": 0, "function": function}]}),
            json!(null),
        )
    };
    shapes.push(Shape {
        name: "calls with one index and no ids",
        events: vec![
            call_without_id(6),
            call_without_id(8),
            end("tool_calls"),
            done(),
        ],
        text: "",
        calls: vec![("roll", six()), ("roll", json!({"sides": 8}))],
        finish: Finish::ToolCalls,
    });
    shapes.push(Shape::text(
        "keep-alives",
        vec![
            json!({"type": "ping"}),
            json!({"type": "keepalive"}),
            json!("ping"),
            text("You "),
            json!("keep-alive"),
            json!(""),
            json!("null"),
            text("can."),
            end("stop"),
            done(),
        ],
        "You can.",
        Finish::Stop,
    ));
    let with_error = |error: Value| {
        let mut chunk = text("You ");
        chunk["error"] = error;
        chunk
    };
    for (name, error) in [
        ("error: {}", json!({})),
        ("error: []", json!([])),
        ("error: \"\"", json!("")),
        ("error: false", json!(false)),
    ] {
        let events = vec![with_error(error), text("can."), end("stop"), done()];
        shapes.push(Shape::text(name, events, "You can.", Finish::Stop));
    }
    shapes
}
