use serde_json::{Value, json};

use super::Shape;
use crate::Finish;

pub(super) fn streams() -> Vec<Shape> {
    let part = |part: Value, reason: Value| json!({"responseId": "r1", "candidates": [{"index": 0, "content": {"role": "model", "parts": [part]}, "finishReason": reason}]});
    let text = |text: &str, reason: Value| part(json!({"text": text}), reason);
    let end = |reason: Value| json!({"candidates": [{"finishReason": reason}], "usageMetadata": {"promptTokenCount": 3}});
    let call = || {
        part(
            json!({"functionCall": {"name": "roll", "args": {"sides": 6}}}),
            json!(null),
        )
    };
    let six = || json!({"sides": 6});
    let unspecified = || json!("FINISH_REASON_UNSPECIFIED");
    vec![
        Shape::text(
            "text",
            vec![text("You ", json!(null)), text("can.", json!("STOP"))],
            "You can.",
            Finish::Stop,
        ),
        Shape::text(
            "a reason in lower case",
            vec![text("You ", json!(null)), text("can.", json!("max_tokens"))],
            "You can.",
            Finish::Length,
        ),
        Shape::text(
            "an array of responses",
            vec![
                json!([text("You ", json!(null)), text("can", json!(null))]),
                json!([]),
                json!([text(".", json!("STOP"))]),
            ],
            "You can.",
            Finish::Stop,
        ),
        Shape::text(
            "thought",
            vec![
                part(json!({"text": "Hm", "thought": true}), json!(null)),
                text("Yes.", json!("STOP")),
            ],
            "Yes.",
            Finish::Stop,
        ),
        Shape::text(
            "empty reasons",
            vec![
                text("You ", json!("")),
                text("can.", json!("")),
                end(json!("STOP")),
                end(json!("")),
            ],
            "You can.",
            Finish::Stop,
        ),
        Shape::text(
            "unspecified",
            vec![
                text("You ", unspecified()),
                end(json!("MAX_TOKENS")),
                end(unspecified()),
            ],
            "You ",
            Finish::Length,
        ),
        Shape::text(
            "filtered",
            vec![text("You ", json!(null)), end(json!("SAFETY"))],
            "You ",
            Finish::Filtered,
        ),
        Shape::text(
            "blocked",
            vec![json!({"promptFeedback": {"blockReason": "SAFETY"}})],
            "",
            Finish::Filtered,
        ),
        Shape::text(
            "late reason",
            vec![
                text("You ", json!(null)),
                end(json!("STOP")),
                json!({"usageMetadata": {"promptTokenCount": 3}}),
            ],
            "You ",
            Finish::Stop,
        ),
        Shape::call(
            "call",
            vec![call(), end(json!("STOP"))],
            six(),
            Finish::ToolCalls,
        ),
        Shape::call(
            "call cut by length",
            vec![call(), end(json!("MAX_TOKENS")), end(json!("STOP"))],
            six(),
            Finish::Length,
        ),
        Shape::call(
            "malformed call",
            vec![call(), end(json!("MALFORMED_FUNCTION_CALL"))],
            six(),
            Finish::Length,
        ),
    ]
}
