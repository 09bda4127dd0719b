use serde_json::{Value, json};

use super::Shape;
use crate::Finish::{Filtered, Length, Stop, ToolCalls};

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
    let start = || text("You ", json!(null));
    let no_reason = || json!("FINISH_REASON_UNSPECIFIED");
    let array = vec![
        json!([start(), text("can", json!(null))]),
        json!([]),
        json!([text(".", json!("STOP"))]),
    ];
    let thought = vec![
        part(json!({"text": "Hm", "thought": true}), json!(null)),
        text("Yes.", json!("STOP")),
    ];
    let empty_reasons = vec![
        text("You ", json!("")),
        text("can.", json!("")),
        end(json!("STOP")),
        end(json!("")),
    ];
    let unspecified = vec![
        text("You ", no_reason()),
        end(json!("MAX_TOKENS")),
        end(no_reason()),
    ];
    let blocked = vec![json!({"promptFeedback": {"blockReason": "SAFETY"}})];
    let usage = json!({"usageMetadata": {"promptTokenCount": 3}});
    let stop = vec![start(), text("can.", json!("STOP"))];
    let lower_case = vec![start(), text("can.", json!("max_tokens"))];
    let filtered = vec![start(), end(json!("SAFETY"))];
    let late = vec![start(), end(json!("STOP")), usage];
    let cut_call = vec![call(), end(json!("MAX_TOKENS")), end(json!("STOP"))];
    let malformed_call = vec![call(), end(json!("MALFORMED_FUNCTION_CALL"))];
    let whole_call = vec![call(), end(json!("STOP"))];
    vec![
        Shape::text("text", stop, "You can.", Stop),
        Shape::text("a reason in lower case", lower_case, "You can.", Length),
        Shape::text("an array of responses", array, "You can.", Stop),
        Shape::text("thought", thought, "Yes.", Stop),
        Shape::text("empty reasons", empty_reasons, "You can.", Stop),
        Shape::text("unspecified", unspecified, "You ", Length),
        Shape::text("filtered", filtered, "You ", Filtered),
        Shape::text("blocked", blocked, "", Filtered),
        Shape::text("late reason", late, "You ", Stop),
        Shape::call("call", whole_call, six(), ToolCalls),
        Shape::call("call cut by length", cut_call, six(), Length),
        Shape::call("malformed call", malformed_call, six(), Length),
    ]
}
