use pillion_core::tool::{ErrorCode, ToolDefinition, ToolResult};
use serde_json::{Value, json};

use crate::{
    Provider, StrictFlag, assistant_messages, assistant_text, format_results, format_tool,
    parse_tool_calls, refusal,
};

const RESPONSES: Provider = Provider::OpenAiResponses;

/// Returns a response of a reasoning model with a function call.
fn response() -> Value {
    json!({
        "id": "resp_67ca09c5efe0819096d0511c92b8c890",
        "object": "response",
        "status": "completed",
        "error": null,
        "model": "gpt-5",
        "output": [
            {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAAABo"},
            {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
             "content": [{"type": "output_text", "text": "Let me look.", "annotations": []}]},
            {"type": "function_call", "id": "fc_1", "call_id": "call_unPY", "status": "completed",
             "name": "get_weather", "arguments": "{\"location\":\"Paris\"}"},
            {"type": "mcp_call", "id": "mcp_1", "server_label": "dmcp", "name": "roll",
             "arguments": "{}", "output": "4"},
        ],
    })
}

#[test]
fn a3_required_is_always_present_in_raw_schemas() {
    let inner = json!({"type": "object", "properties": {"x": {"type": "string"}}});
    for required in [None, Some(json!(null)), Some(json!([])), Some(json!(["a"]))] {
        let mut raw = json!({"type": "object", "properties": {"a": inner}});
        if let Some(required) = &required {
            raw["required"] = required.clone();
        }
        let built = ToolDefinition::builder("t", "d").schema(raw).build();
        let tool = built.unwrap();
        let expected = required.filter(Value::is_array).unwrap_or(json!([]));
        for provider in [RESPONSES, Provider::OpenAiChat] {
            let formatted = format_tool(provider, &tool, StrictFlag::WhenTrue);
            let parameters = &formatted.get("function").unwrap_or(&formatted)["parameters"];
            assert_eq!(parameters["required"], expected, "{provider}");
            // Nested schemas are unchanged.
            assert_eq!(parameters["properties"]["a"], inner);
        }
    }
}

#[test]
fn h1_tools_are_flat_and_always_contain_strict() {
    for strict in [false, true] {
        let mut parameters = json!({"type": "object", "properties": {}, "required": []});
        if strict {
            parameters["additionalProperties"] = json!(false);
        }
        let tool = ToolDefinition::builder("ping", "Says pong")
            .strict(strict)
            .build()
            .unwrap();
        for flag in [StrictFlag::WhenTrue, StrictFlag::Always] {
            assert_eq!(
                format_tool(RESPONSES, &tool, flag),
                json!({"type": "function", "name": "ping", "description": "Says pong",
                       "parameters": parameters, "strict": strict})
            );
        }
    }
}

#[test]
fn a6_calls_have_the_call_id() {
    let calls = parse_tool_calls(RESPONSES, &response()).unwrap();
    assert_eq!(calls.len(), 1);
    assert_eq!(
        (&*calls[0].id, &*calls[0].name),
        ("call_unPY", "get_weather")
    );
    assert_eq!(calls[0].arguments, json!("{\"location\":\"Paris\"}"));
    assert_eq!(
        assistant_text(RESPONSES, &response()).unwrap(),
        "Let me look."
    );
}

#[test]
fn h5_all_output_items_go_back_before_the_results() {
    let items = assistant_messages(RESPONSES, &response()).unwrap();
    assert_eq!(json!(items), response()["output"]);
    let results = [
        ToolResult::success("call_unPY", "get_weather", json!("Sunny")),
        ToolResult::failure("call_2", "x", ErrorCode::Timeout, "late"),
    ];
    assert_eq!(
        format_results(RESPONSES, &results),
        [
            json!({"type": "function_call_output", "call_id": "call_unPY", "output": "Sunny"}),
            json!({"type": "function_call_output", "call_id": "call_2",
                   "output": "{\"error\":\"late\"}"}),
        ]
    );
}

#[test]
fn h5_a_refusal_is_the_text_of_an_answer_without_text() {
    let refusal_part = json!({"type": "refusal", "refusal": "I must not."});
    let text = json!({"type": "output_text", "text": "Well."});
    let of = |parts: &[&Value]| json!({"output": [{"type": "message", "content": parts}]});
    let response = of(&[&refusal_part]);
    assert_eq!(assistant_text(RESPONSES, &response).unwrap(), "I must not.");
    assert_eq!(refusal(RESPONSES, &response).unwrap(), "I must not.");
    let response = of(&[&text, &refusal_part]);
    assert_eq!(assistant_text(RESPONSES, &response).unwrap(), "Well.");
    assert_eq!(refusal(RESPONSES, &response).unwrap(), "");
}

#[test]
fn a6_arguments_go_back_as_a_string() {
    let response = json!({"output": [
        {"type": "function_call", "call_id": "1", "name": "a", "arguments": {"x": 1}},
        {"type": "function_call", "call_id": "2", "name": "b"},
        {"type": "function_call", "call_id": "3", "name": "c", "arguments": "{ \"x\": 1 }"},
        {"type": "function_call", "call_id": "4", "name": "d", "arguments": "{\"x\": "},
        {"type": "function_call", "call_id": "5", "name": "e", "arguments": "[1]"},
    ]});
    let items = assistant_messages(RESPONSES, &response).unwrap();
    assert_eq!(items[0]["arguments"], "{\"x\":1}");
    assert_eq!(items[1]["arguments"], "{}");
    assert_eq!(items[2]["arguments"], "{ \"x\": 1 }");
    assert_eq!(items[3]["arguments"], r#"{"INVALID_JSON":"{\"x\": "}"#);
    assert_eq!(items[4]["arguments"], r#"{"INVALID_JSON":"[1]"}"#);
}

#[test]
fn h5_reasoning_without_an_answer_does_not_go_back() {
    let reasoning = json!({"type": "reasoning", "id": "rs_1", "summary": []});
    let call = json!({"type": "function_call", "call_id": "1", "name": "a", "arguments": "{}"});
    let sent_items = |output: &[&Value]| {
        let response = json!({"status": "incomplete", "output": output});
        assistant_messages(RESPONSES, &response).unwrap()
    };
    assert_eq!(sent_items(&[&reasoning]), [] as [Value; 0]);
    let items = [&reasoning, &call, &reasoning, &reasoning];
    assert_eq!(sent_items(&items), [reasoning.clone(), call.clone()]);
}
