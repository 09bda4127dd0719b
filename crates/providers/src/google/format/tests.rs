use pillion_core::tool::{ErrorCode, ToolDefinition, ToolResult};
use serde_json::{Value, json};

use crate::{
    Provider, assistant_messages, assistant_text, format_results, format_tools, parse_tool_calls,
};

const GOOGLE: Provider = Provider::Google;

/// Returns a response with a thought, text and two parallel calls without IDs.
fn response() -> Value {
    json!({
        "candidates": [{
            "content": {
                "parts": [
                    {"text": "The user wants two things.", "thought": true},
                    {"text": "Let me see."},
                    {"functionCall": {"name": "get_weather", "args": {"location": "London"}},
                     "thoughtSignature": "CiIBVKhc7l5mzkoZSRQf"},
                    {"functionCall": {"name": "get_time", "args": {}}},
                ],
                "role": "model",
            },
            "finishReason": "STOP",
            "index": 0,
        }],
        "usageMetadata": {"promptTokenCount": 79, "candidatesTokenCount": 20},
        "modelVersion": "gemini-2.5-flash",
        "responseId": "Il0taoSYJ5Cez7",
    })
}

#[test]
fn h1_declarations_have_a_valid_schema_for_gemini() {
    let tool = ToolDefinition::builder("find", "Finds")
        .schema(
            json!({"type": "object", "properties": {"q": {"type": ["string", "null"]}},
                       "additionalProperties": false}),
        )
        .build()
        .unwrap();
    assert_eq!(
        format_tools(GOOGLE, [&tool]),
        [
            json!({"name": "find", "description": "Finds", "parameters": {
            "type": "object", "properties": {"q": {"type": "string", "nullable": true}}}})
        ]
    );
}

#[test]
fn a6_calls_without_ids_get_stable_ones() {
    let calls = parse_tool_calls(GOOGLE, &response()).unwrap();
    assert_eq!(calls, parse_tool_calls(GOOGLE, &response()).unwrap());
    let ids_and_names: Vec<_> = calls.iter().map(|c| (&*c.id, &*c.name)).collect();
    assert_eq!(
        ids_and_names,
        [
            ("pillion_call_Il0taoSYJ5Cez7_0", "get_weather"),
            ("pillion_call_Il0taoSYJ5Cez7_1", "get_time")
        ]
    );
    assert_eq!(calls[0].arguments, json!({"location": "London"}));
    assert_eq!(assistant_text(GOOGLE, &response()).unwrap(), "Let me see.");

    let bare =
        json!({"candidates": [{"content": {"parts": [{"functionCall": {"name": "ping"}}]}}]});
    let calls = parse_tool_calls(GOOGLE, &bare).unwrap();
    assert_eq!(calls[0].id, "pillion_call_0");
    assert_eq!(calls[0].arguments, json!({}));
}

#[test]
fn h5_generated_ids_are_not_sent_and_real_ids_go_back() {
    assert_eq!(
        assistant_messages(GOOGLE, &response()).unwrap(),
        [json!({"role": "model", "parts": response()["candidates"][0]["content"]["parts"]})]
    );
    let mut failed =
        ToolResult::failure("8f2b1a3c", "get_time", ErrorCode::Unavailable, "no clock");
    let results = [
        ToolResult::success("pillion_call_0", "get_weather", json!({"error": null})),
        failed.clone(),
    ];
    assert_eq!(
        format_results(GOOGLE, &results),
        [json!({"role": "user", "parts": [
            {"functionResponse": {"name": "get_weather", "response": {"result": {"error": null}}}},
            {"functionResponse": {"id": "8f2b1a3c", "name": "get_time",
                                  "response": {"error": "no clock"}}},
        ]})]
    );
    for (result, response) in [
        (
            json!({"tick": 1}),
            json!({"error": "no clock", "result": {"tick": 1}}),
        ),
        (
            json!({"content": [{"type": "text", "text": "tick"}]}),
            json!({"error": "no clock", "result": "tick"}),
        ),
        (json!({"content": []}), json!({"error": "no clock"})),
    ] {
        failed.result = result;
        assert_eq!(
            format_results(GOOGLE, &[failed.clone()])[0]["parts"][0]["functionResponse"]["response"],
            response
        );
    }
}

#[test]
fn e11_empty_args_from_php_are_an_object_again() {
    let response = json!({"candidates": [{"content": {"parts": [
        {"functionCall": {"id": "a", "name": "ping", "args": []}}]}}]});
    assert_eq!(
        parse_tool_calls(GOOGLE, &response).unwrap()[0].arguments,
        json!({})
    );
    let messages = assistant_messages(GOOGLE, &response).unwrap();
    assert_eq!(
        messages,
        [
            json!({"role": "model", "parts": [{"functionCall": {"id": "a", "name": "ping", "args": {}}}]})
        ]
    );
}

#[test]
fn h5_a_stopped_answer_has_no_calls() {
    for body in [
        json!({"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": {}}),
        json!({"candidates": [{"finishReason": "MALFORMED_FUNCTION_CALL"}]}),
        json!({"candidates": [{"content": {"role": "model"}, "finishReason": "MAX_TOKENS"}]}),
        json!({"candidates": [{"content": {}, "finishReason": "SAFETY"}]}),
    ] {
        assert!(
            parse_tool_calls(GOOGLE, &body).unwrap().is_empty(),
            "{body}"
        );
        assert!(
            assistant_messages(GOOGLE, &body).unwrap().is_empty(),
            "{body}"
        );
        assert_eq!(assistant_text(GOOGLE, &body).unwrap(), "", "{body}");
    }
}
