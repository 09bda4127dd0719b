use serde_json::{Value, json};

use super::Shape;
use crate::Finish::{self, Filtered, Length, Stop, ToolCalls};

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
    let delta = |delta: Value| chunk(delta, json!(null));
    let text = |text: &str| delta(json!({"content": text}));
    let call = |arguments: &str| delta(call_delta(arguments));
    let more = |arguments: &str| delta(more_arguments(arguments));
    let end = |reason: &str| chunk(json!({}), json!(reason));
    let start = || delta(json!({"role": "assistant", "content": "", "refusal": null}));
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
            Stop,
        ),
        Shape::text(
            "no [DONE]",
            vec![
                text("You "),
                chunk(json!({"content": "can."}), json!("stop")),
            ],
            "You can.",
            Stop,
        ),
        Shape::text(
            "refusal",
            vec![
                delta(json!({"refusal": "I "})),
                delta(json!({"refusal": "won't."})),
                end("stop"),
                done(),
            ],
            "I won't.",
            Filtered,
        ),
        Shape::text(
            "thinking",
            vec![
                delta(json!({"reasoning_content": "Hm", "content": null})),
                text("Yes."),
                end("stop"),
                done(),
            ],
            "Yes.",
            Stop,
        ),
        Shape::text(
            "parts",
            vec![
                delta(
                    json!({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "Hm"}]}]}),
                ),
                delta(json!({"content": [{"type": "text", "text": "You "}]})),
                text("can "),
                delta(json!({"content": [{"type": "text", "text": "roll."}]})),
                end("stop"),
                done(),
            ],
            "You can roll.",
            Stop,
        ),
        Shape::text(
            "length",
            vec![text("You "), end("length"), usage_chunk(), done()],
            "You ",
            Length,
        ),
        Shape::text(
            "filtered",
            vec![text("You "), end("content_filter"), done()],
            "You ",
            Filtered,
        ),
        Shape::text(
            "whole message",
            vec![
                json!({"choices": [{"message": {"role": "assistant", "content": "Yes."}, "finish_reason": "stop"}]}),
                done(),
            ],
            "Yes.",
            Stop,
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
            Stop,
        ),
        Shape::call(
            "call",
            vec![
                start(),
                call(""),
                more("{\"sides\""),
                more(":6}"),
                end("tool_calls"),
                done(),
            ],
            six(),
            ToolCalls,
        ),
        Shape::call(
            "call that stops",
            vec![call("{\"sides\":6}"), end("stop"), done()],
            six(),
            ToolCalls,
        ),
        Shape::call(
            "call cut by length",
            vec![call("{\"sides\":6}"), end("length"), done()],
            six(),
            Length,
        ),
        Shape::call(
            "unknown reason",
            vec![call("{\"sides\":6}"), end("bored"), done()],
            six(),
            Length,
        ),
        Shape::text(
            "unknown reason, text",
            vec![text("Yes."), end("bored"), done()],
            "Yes.",
            Finish::Other("bored".to_owned()),
        ),
    ];
    let names_of_empty = [
        "empty reasons",
        "empty reason after length",
        "[DONE] after empty reasons",
        "call with empty reasons",
    ];
    let names_of_null = [
        "the word null",
        "null after length",
        "[DONE] after the word null",
        "call with the word null",
    ];
    let names_of_false = [
        "false",
        "false after length",
        "[DONE] after false",
        "call with false",
    ];
    for (empty, names) in [
        (json!(""), names_of_empty),
        (json!("null"), names_of_null),
        (json!(false), names_of_false),
    ] {
        let text = |text: &str| chunk(json!({"content": text}), empty.clone());
        let empty_chunk = |delta: Value| chunk(delta, empty.clone());
        let nothing = || chunk(json!({}), empty.clone());
        shapes.extend([
            Shape::text(
                names[0],
                vec![text("You "), text("can."), end("stop"), nothing(), done()],
                "You can.",
                Stop,
            ),
            Shape::text(
                names[1],
                vec![text("You "), end("length"), nothing(), done()],
                "You ",
                Length,
            ),
            Shape::text(
                names[2],
                vec![text("You "), text("can."), done()],
                "You can.",
                Stop,
            ),
            Shape::call(
                names[3],
                vec![
                    empty_chunk(call_delta("")),
                    empty_chunk(more_arguments("{\"sides\":6}")),
                    nothing(),
                    done(),
                ],
                six(),
                ToolCalls,
            ),
        ]);
    }
    for (name, placeholder) in [
        ("an empty object before the arguments", "{}"),
        ("null before the arguments", "null"),
    ] {
        let events = vec![
            call(placeholder),
            more("{\"sides\""),
            more(":6}"),
            end("tool_calls"),
            done(),
        ];
        shapes.push(Shape::call(name, events, six(), ToolCalls));
    }
    shapes.push(Shape::call(
        "the arguments twice",
        vec![
            call("{\"sides\""),
            more(":6}"),
            more("{\"sides\":6}"),
            end("tool_calls"),
            done(),
        ],
        six(),
        ToolCalls,
    ));
    let call_without_id = |sides: u64| {
        let arguments = json!({"sides": sides}).to_string();
        let function = json!({"name": "roll", "arguments": arguments});
        delta(json!({"tool_calls": [{"index": 0, "function": function}]}))
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
        finish: ToolCalls,
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
        Stop,
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
        shapes.push(Shape::text(name, events, "You can.", Stop));
    }
    shapes
}
