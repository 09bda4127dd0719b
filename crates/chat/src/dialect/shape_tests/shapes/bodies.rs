use pillion_core::provider::Provider::{
    self, Anthropic, Google, OpenAiChat as Chat, OpenAiResponses as Responses,
};
use serde_json::{Value, json};

use super::Shape;
use crate::Finish;

pub(in super::super) fn bodies() -> Vec<(Provider, Shape)> {
    let chat = |message: Value, reason: Value| {
        vec![
            json!({"id": "c1", "choices": [{"index": 0, "message": message, "finish_reason": reason}]}),
        ]
    };
    let say = |content: Value, reason: Value| {
        chat(json!({"role": "assistant", "content": content}), reason)
    };
    let call = || json!({"role": "assistant", "content": null, "tool_calls": [{"id": "k1", "type": "function", "function": {"name": "roll", "arguments": "{\"sides\":6}"}}]});
    let claude = |content: Value, reason: Value| {
        vec![
            json!({"type": "message", "role": "assistant", "content": [content], "stop_reason": reason}),
        ]
    };
    let claude_text = || json!({"type": "text", "text": "Yes."});
    let claude_call =
        || json!({"type": "tool_use", "id": "k1", "name": "roll", "input": {"sides": 6}});
    let gemini = |part: Value, reason: Value| {
        vec![
            json!({"candidates": [{"content": {"parts": [part], "role": "model"}, "finishReason": reason}]}),
        ]
    };
    let gemini_call = || json!({"functionCall": {"name": "roll", "args": {"sides": 6}}});
    let output = |item: Value, status: Value, reason: Value| {
        vec![json!({"status": status, "incomplete_details": {"reason": reason}, "output": [item]})]
    };
    let message =
        || json!({"type": "message", "content": [{"type": "output_text", "text": "Yes."}]});
    let function = || json!({"type": "function_call", "call_id": "k1", "name": "roll", "arguments": "{\"sides\":6}"});
    let six = || json!({"sides": 6});
    vec![
        (
            Chat,
            Shape::text(
                "text",
                say(json!("Yes."), json!("stop")),
                "Yes.",
                Finish::Stop,
            ),
        ),
        (
            Chat,
            Shape::text(
                "an empty error",
                vec![
                    json!({"error": {}, "choices": [{"message": {"content": "Yes."}, "finish_reason": "stop"}]}),
                ],
                "Yes.",
                Finish::Stop,
            ),
        ),
        (
            Chat,
            Shape::text(
                "null content",
                say(json!(null), json!("stop")),
                "",
                Finish::Stop,
            ),
        ),
        (
            Chat,
            Shape::text(
                "parts",
                say(
                    json!([{"type": "thinking", "thinking": []}, {"type": "text", "text": "Y"}, {"type": "text", "text": "es."}]),
                    json!("stop"),
                ),
                "Yes.",
                Finish::Stop,
            ),
        ),
        (
            Chat,
            Shape::text(
                "refusal part",
                say(
                    json!([{"type": "refusal", "refusal": "No."}]),
                    json!("stop"),
                ),
                "No.",
                Finish::Filtered,
            ),
        ),
        (
            Chat,
            Shape::text(
                "empty reason",
                say(json!("Yes."), json!("")),
                "Yes.",
                Finish::Stop,
            ),
        ),
        (
            Chat,
            Shape::text(
                "null reason",
                say(json!("Yes."), json!(null)),
                "Yes.",
                Finish::Stop,
            ),
        ),
        (
            Chat,
            Shape::text(
                "length",
                say(json!("Yes."), json!("max_tokens")),
                "Yes.",
                Finish::Length,
            ),
        ),
        (
            Chat,
            Shape::call(
                "call",
                chat(call(), json!("tool_calls")),
                six(),
                Finish::ToolCalls,
            ),
        ),
        (
            Chat,
            Shape::call(
                "call with an empty reason",
                chat(call(), json!("")),
                six(),
                Finish::ToolCalls,
            ),
        ),
        (
            Chat,
            Shape::call(
                "call cut by length",
                chat(call(), json!("length")),
                six(),
                Finish::Length,
            ),
        ),
        (
            Chat,
            Shape::call(
                "call of an unknown end",
                chat(call(), json!("bored")),
                six(),
                Finish::Length,
            ),
        ),
        (
            Responses,
            Shape::text(
                "text",
                output(message(), json!("completed"), json!(null)),
                "Yes.",
                Finish::Stop,
            ),
        ),
        (
            Responses,
            Shape::text(
                "empty status",
                output(message(), json!(""), json!("")),
                "Yes.",
                Finish::Stop,
            ),
        ),
        (
            Responses,
            Shape::text(
                "length",
                output(message(), json!("incomplete"), json!("max_output_tokens")),
                "Yes.",
                Finish::Length,
            ),
        ),
        (
            Responses,
            Shape::call(
                "call",
                output(function(), json!("completed"), json!(null)),
                six(),
                Finish::ToolCalls,
            ),
        ),
        (
            Responses,
            Shape::call(
                "call of an empty end",
                output(function(), json!("incomplete"), json!("")),
                six(),
                Finish::Length,
            ),
        ),
        (
            Anthropic,
            Shape::text(
                "text",
                claude(claude_text(), json!("end_turn")),
                "Yes.",
                Finish::Stop,
            ),
        ),
        (
            Anthropic,
            Shape::text(
                "empty reason",
                claude(claude_text(), json!("")),
                "Yes.",
                Finish::Stop,
            ),
        ),
        (
            Anthropic,
            Shape::call(
                "call",
                claude(claude_call(), json!("tool_use")),
                six(),
                Finish::ToolCalls,
            ),
        ),
        (
            Anthropic,
            Shape::call(
                "call with an empty reason",
                claude(claude_call(), json!("")),
                six(),
                Finish::ToolCalls,
            ),
        ),
        (
            Anthropic,
            Shape::call(
                "call cut by length",
                claude(claude_call(), json!("max_tokens")),
                six(),
                Finish::Length,
            ),
        ),
        (
            Google,
            Shape::text(
                "text",
                gemini(json!({"text": "Yes."}), json!("STOP")),
                "Yes.",
                Finish::Stop,
            ),
        ),
        (
            Google,
            Shape::text(
                "empty reason",
                gemini(json!({"text": "Yes."}), json!("")),
                "Yes.",
                Finish::Stop,
            ),
        ),
        (
            Google,
            Shape::call(
                "call",
                gemini(gemini_call(), json!("STOP")),
                six(),
                Finish::ToolCalls,
            ),
        ),
        (
            Google,
            Shape {
                name: "an array of responses",
                events: vec![json!([
                    gemini(json!({"text": "Y"}), json!(null))[0],
                    gemini(json!({"text": "es."}), json!(null))[0],
                    gemini(gemini_call(), json!("stop"))[0],
                ])],
                text: "Yes.",
                calls: vec![("roll", six())],
                finish: Finish::ToolCalls,
            },
        ),
        (
            Google,
            Shape::call(
                "call with an unspecified reason",
                gemini(gemini_call(), json!("FINISH_REASON_UNSPECIFIED")),
                six(),
                Finish::ToolCalls,
            ),
        ),
        (
            Google,
            Shape::call(
                "call cut by length",
                gemini(gemini_call(), json!("MAX_TOKENS")),
                six(),
                Finish::Length,
            ),
        ),
    ]
}

pub(in super::super) fn broken_bodies() -> Vec<(Provider, &'static str, Value)> {
    let say = |content: Value| json!({"choices": [{"message": {"content": content}, "finish_reason": "stop"}]});
    vec![
        (
            Chat,
            "no message",
            json!({"choices": [{"finish_reason": "stop"}]}),
        ),
        (Chat, "content of another type", say(json!(7))),
        (Chat, "a part without type", say(json!([{"text": "x"}]))),
        (
            Chat,
            "a text part without text",
            say(json!([{"type": "text"}])),
        ),
        (Responses, "no output", json!({"status": "completed"})),
        (
            Responses,
            "in progress",
            json!({"status": "in_progress", "output": []}),
        ),
        (
            Responses,
            "queued",
            json!({"status": "queued", "output": []}),
        ),
        (Anthropic, "no content", json!({"stop_reason": "end_turn"})),
        (
            Anthropic,
            "null content",
            json!({"content": null, "stop_reason": "end_turn"}),
        ),
        (Google, "no candidates", json!({"promptFeedback": {}})),
        (Google, "empty candidates", json!({"candidates": []})),
        (Google, "no responses", json!([])),
        (
            Google,
            "an array of responses without a reason",
            json!([{"candidates": [{"content": {"parts": [{"text": "x"}]}}]}]),
        ),
        (
            Google,
            "an error after a response",
            json!([{"candidates": [{"finishReason": "STOP"}]}, {"error": {"code": 503}}]),
        ),
    ]
}
