use pillion_core::tool::{ErrorCode, ToolDefinition, ToolResult};
use serde_json::{Value, json};

use crate::{
    Provider, assistant_messages, assistant_text, format_results, format_tools, parse_tool_calls,
};

const ANTHROPIC: Provider = Provider::Anthropic;

/// Returns a message with a thought, text and two parallel calls.
fn response() -> Value {
    json!({
        "id": "msg_01Aq9w938a90dw8q",
        "type": "message",
        "role": "assistant",
        "model": "claude-sonnet-4-5",
        "stop_reason": "tool_use",
        "content": [
            {"type": "thinking", "thinking": "I need both.", "signature": "EqQBCgIYAhIM"},
            {"type": "text", "text": "I'll check."},
            {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "x"}},
            {"type": "tool_use", "id": "toolu_01", "name": "get_weather",
             "input": {"location": "San Francisco, CA"}},
            {"type": "tool_use", "id": "toolu_02", "name": "get_time", "input": {}},
        ],
        "usage": {"input_tokens": 472, "output_tokens": 89},
    })
}

#[test]
fn h1_tools_have_an_input_schema() {
    let schema = json!({"type": "object", "properties": {"q": {"type": "string"}},
                        "additionalProperties": false});
    let tool = ToolDefinition::builder("find", "Finds")
        .schema(schema.clone())
        .strict(true)
        .build()
        .unwrap();
    assert_eq!(
        format_tools(ANTHROPIC, [&tool]),
        [json!({"name": "find", "description": "Finds", "input_schema": schema})]
    );
}

#[test]
fn a6_tool_use_blocks_are_calls() {
    let calls = parse_tool_calls(ANTHROPIC, &response()).unwrap();
    let ids_and_names: Vec<_> = calls.iter().map(|c| (&*c.id, &*c.name)).collect();
    assert_eq!(
        ids_and_names,
        [("toolu_01", "get_weather"), ("toolu_02", "get_time")]
    );
    assert_eq!(calls[0].arguments, json!({"location": "San Francisco, CA"}));
    assert_eq!(
        assistant_text(ANTHROPIC, &response()).unwrap(),
        "I'll check."
    );
}

#[test]
fn h5_one_user_message_contains_all_results() {
    assert_eq!(
        assistant_messages(ANTHROPIC, &response()).unwrap(),
        [json!({"role": "assistant", "content": response()["content"]})]
    );
    let results = [
        ToolResult::success("toolu_01", "get_weather", json!("15 degrees")),
        ToolResult::failure("toolu_02", "get_time", ErrorCode::Timeout, "late"),
    ];
    assert_eq!(
        format_results(ANTHROPIC, &results),
        [json!({"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "toolu_01", "content": "15 degrees"},
            {"type": "tool_result", "tool_use_id": "toolu_02", "content": "{\"error\":\"late\"}",
             "is_error": true},
        ]})]
    );
    assert!(format_results(ANTHROPIC, &[]).is_empty());
}

/// PHP's `json_decode(..., true)` turns an empty object into `[]`.
#[test]
fn e11_an_empty_input_from_php_is_an_object_again() {
    let response =
        json!({"content": [{"type": "tool_use", "id": "1", "name": "ping", "input": []}]});
    let calls = parse_tool_calls(ANTHROPIC, &response).unwrap();
    assert_eq!(calls[0].arguments, json!({}));
    let messages = assistant_messages(ANTHROPIC, &response).unwrap();
    assert_eq!(messages[0]["content"][0]["input"], json!({}));
}

/// The response was streamed and was cut off in the arguments of a call.
#[test]
fn a6_an_input_that_is_not_json_goes_back_as_an_object() {
    let response =
        json!({"content": [{"type": "tool_use", "id": "1", "name": "roll", "input": "{\"n\": "}]});
    let calls = parse_tool_calls(ANTHROPIC, &response).unwrap();
    assert_eq!(calls[0].arguments, "{\"n\": ");
    let messages = assistant_messages(ANTHROPIC, &response).unwrap();
    assert_eq!(
        messages[0]["content"][0]["input"],
        json!({"INVALID_JSON": "{\"n\": "})
    );
}

#[test]
fn h5_an_empty_turn_is_not_sent_back() {
    let response = json!({"role": "assistant", "content": [], "stop_reason": "end_turn"});
    assert!(parse_tool_calls(ANTHROPIC, &response).unwrap().is_empty());
    assert!(assistant_messages(ANTHROPIC, &response).unwrap().is_empty());
    assert_eq!(assistant_text(ANTHROPIC, &response).unwrap(), "");
}

/// The API rejects a conversation with a blank text block.
#[test]
fn h5_blank_text_is_not_sent_back() {
    let call = json!({"type": "tool_use", "id": "1", "name": "ping", "input": {}});
    let thought = json!({"type": "thinking", "thinking": "", "signature": "c2ln"});
    let blank = |text: &str| json!({"type": "text", "text": text});
    let response = json!({"content": [blank(""), thought, blank(" \n"), call]});
    assert_eq!(
        assistant_messages(ANTHROPIC, &response).unwrap(),
        [json!({"role": "assistant", "content": [thought, call]})]
    );
    let response = json!({"content": [blank("")]});
    assert!(assistant_messages(ANTHROPIC, &response).unwrap().is_empty());
}

/// The API rejects a message that ends with a thinking block.
#[test]
fn h5_thinking_without_an_answer_is_not_sent_back() {
    let thought = json!({"type": "thinking", "thinking": "Hm", "signature": "c2ln"});
    let redacted = json!({"type": "redacted_thinking", "data": "c2ln"});
    let text = |text: &str| json!({"type": "text", "text": text});
    let sent_content = |content: &[&Value]| {
        let response = json!({"content": content, "stop_reason": "max_tokens"});
        assistant_messages(ANTHROPIC, &response).unwrap()
    };
    assert!(sent_content(&[&thought, &redacted, &text("\n")]).is_empty());
    assert_eq!(
        sent_content(&[&thought, &text("Well."), &redacted]),
        [json!({"role": "assistant", "content": [thought, text("Well.")]})]
    );
}
