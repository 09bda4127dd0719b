use pillion_core::tool::{ErrorCode, ParameterType, ToolDefinition, ToolParameter, ToolResult};
use serde_json::{Value, json};

use crate::{
    Provider, StrictFlag, assistant_messages, assistant_text, format_results, format_tool,
    format_tools, parse_tool_calls, refusal,
};

const CHAT: Provider = Provider::OpenAiChat;

/// Returns a chat completion with two parallel calls.
fn response() -> Value {
    json!({
        "id": "chatcmpl-abc123",
        "object": "chat.completion",
        "created": 1_741_569_952,
        "model": "gpt-4.1-2025-04-14",
        "choices": [{
            "index": 0,
            "message": {
                "role": "assistant",
                "content": null,
                "tool_calls": [
                    {"id": "call_abc", "type": "function",
                     "function": {"name": "get_time", "arguments": "{\n\"timezone\": \"Asia/Tokyo\"\n}"}},
                    {"id": "call_def", "type": "function",
                     "function": {"name": "roll_dice", "arguments": "{bad"}},
                ],
                "refusal": null,
                "annotations": [],
            },
            "logprobs": null,
            "finish_reason": "tool_calls",
        }],
        "usage": {"prompt_tokens": 82, "completion_tokens": 17, "total_tokens": 99},
    })
}

fn tool(strict: bool) -> ToolDefinition {
    ToolDefinition::builder("get_time", "Tells the time")
        .parameter(ToolParameter::new("timezone", ParameterType::String))
        .strict(strict)
        .build()
        .unwrap()
}

#[test]
fn h1_tools_are_nested_and_strict_is_optional() {
    let schema = |strict: Option<bool>| {
        let mut function = json!({
            "name": "get_time",
            "description": "Tells the time",
            "parameters": {"type": "object", "properties": {"timezone": {"type": "string"}},
                           "required": ["timezone"]},
        });
        if let Some(strict) = strict {
            function["strict"] = json!(strict);
        }
        if strict == Some(true) {
            function["parameters"]["additionalProperties"] = json!(false);
        }
        json!({"type": "function", "function": function})
    };
    assert_eq!(format_tools(CHAT, [&tool(false)]), [schema(None)]);
    assert_eq!(format_tools(CHAT, [&tool(true)]), [schema(Some(true))]);
    for strict in [false, true] {
        assert_eq!(
            format_tool(CHAT, &tool(strict), StrictFlag::Always),
            schema(Some(strict))
        );
    }
}

#[test]
fn h1_only_schemas_that_can_be_strict_are_marked_strict() {
    let tool = |property: Value| {
        let schema = json!({"type": "object", "properties": {"p": property}});
        let tool = ToolDefinition::builder("t", "d").schema(schema);
        tool.strict(true).build().unwrap()
    };
    let text = tool(json!({"type": "string", "default": "x"}));
    let function = &format_tool(CHAT, &text, StrictFlag::WhenTrue)["function"];
    assert_eq!(function["strict"], true);
    assert_eq!(
        function["parameters"],
        json!({"type": "object", "properties": {"p": {"type": ["string", "null"]}},
               "required": ["p"], "additionalProperties": false})
    );
    let map = tool(json!({"type": "object"}));
    for flag in [StrictFlag::WhenTrue, StrictFlag::Always] {
        let function = &format_tool(CHAT, &map, flag)["function"];
        let strict = (flag == StrictFlag::Always).then_some(json!(false));
        assert_eq!(function.get("strict"), strict.as_ref());
        assert_eq!(
            function["parameters"],
            json!({"type": "object", "properties": {"p": {"type": "object"}}, "required": []})
        );
    }
    let flat = format_tool(Provider::OpenAiResponses, &map, StrictFlag::WhenTrue);
    assert_eq!(flat["strict"], false);
}

#[test]
fn a6_calls_keep_their_arguments_as_they_came() {
    let calls = parse_tool_calls(CHAT, &response()).unwrap();
    assert_eq!(calls.len(), 2);
    assert_eq!((&*calls[0].id, &*calls[0].name), ("call_abc", "get_time"));
    assert_eq!(
        calls[0].arguments,
        json!("{\n\"timezone\": \"Asia/Tokyo\"\n}")
    );
    assert_eq!(calls[1].arguments, json!("{bad"));
    assert_eq!(calls[1].index, None);
}

/// Compatible servers send calls without a type, with arguments as an object, and with an index.
#[test]
fn a6_calls_of_compatible_servers_are_repaired() {
    let response = json!({"choices": [{"message": {"content": "", "tool_calls": [
        {"id": "1", "index": 0, "function": {"name": "a", "arguments": {"x": 1}}},
        {"id": "2", "type": "function", "function": {"name": "b"}},
        {"id": "3", "type": "custom", "custom": {"name": "c", "input": "text"}},
        {"id": "4", "type": "function", "function": {"name": "d", "arguments": []}},
    ]}}]});
    let calls = parse_tool_calls(CHAT, &response).unwrap();
    assert_eq!(calls.len(), 3);
    assert_eq!(calls[0].arguments, json!({"x": 1}));
    assert_eq!(calls[0].index, Some(0));
    assert_eq!(calls[1].arguments, json!({}));
    assert_eq!(calls[2].arguments, json!({}));

    let messages = assistant_messages(CHAT, &response).unwrap();
    assert_eq!(messages[0]["role"], "assistant");
    let sent_arguments = |n: usize| &messages[0]["tool_calls"][n]["function"]["arguments"];
    assert_eq!(*sent_arguments(0), json!("{\"x\":1}"));
    assert_eq!(*sent_arguments(1), json!("{}"));
    assert_eq!(*sent_arguments(3), json!("{}"));
}

#[test]
fn h5_the_assistant_message_then_one_message_per_call_in_order() {
    let mut message = response()["choices"][0]["message"].clone();
    message["tool_calls"][1]["function"]["arguments"] = json!("{\"INVALID_JSON\":\"{bad\"}");
    assert_eq!(assistant_messages(CHAT, &response()).unwrap(), [message]);
    let results = [
        ToolResult::success("call_abc", "get_time", json!({"hour": 9})),
        ToolResult::failure("call_def", "roll_dice", ErrorCode::InvalidInput, "bad"),
    ];
    assert_eq!(
        format_results(CHAT, &results),
        [
            json!({"role": "tool", "tool_call_id": "call_abc", "content": "{\"hour\":9}"}),
            json!({"role": "tool", "tool_call_id": "call_def", "content": "{\"error\":\"bad\"}"}),
        ]
    );
}

#[test]
fn h5_text_and_no_calls() {
    for (content, text) in [
        (json!("Hi"), "Hi"),
        (json!(null), ""),
        (
            json!([{"type": "text", "text": "H"}, {"type": "refusal", "refusal": "no"}, {"type": "text", "text": "i"}]),
            "Hi",
        ),
    ] {
        let response = json!({"choices": [{"message": {"role": "assistant", "content": content}}]});
        assert_eq!(assistant_text(CHAT, &response).unwrap(), text);
        assert!(parse_tool_calls(CHAT, &response).unwrap().is_empty());
    }
}

#[test]
fn h5_a_refusal_is_the_text_of_an_answer_without_text() {
    let message_with_refusal = |content: Value, refusal: Value| {
        json!({"choices": [{"message":
            {"role": "assistant", "content": content, "refusal": refusal}}]})
    };
    let part = json!([{"type": "refusal", "refusal": "I must not."}]);
    for response in [
        message_with_refusal(json!(null), json!("I must not.")),
        message_with_refusal(json!(""), json!("I must not.")),
        message_with_refusal(part, json!(null)),
    ] {
        assert_eq!(assistant_text(CHAT, &response).unwrap(), "I must not.");
        assert_eq!(refusal(CHAT, &response).unwrap(), "I must not.");
    }
    let response = message_with_refusal(json!("Well."), json!("I must not."));
    assert_eq!(assistant_text(CHAT, &response).unwrap(), "Well.");
    assert_eq!(refusal(CHAT, &response).unwrap(), "");
    // A message without calls gets content when it is sent back.
    let response = message_with_refusal(json!(null), json!("I must not."));
    let message = &assistant_messages(CHAT, &response).unwrap()[0];
    assert_eq!(message["content"], "");
    assert_eq!(message["refusal"], "I must not.");
}

/// PHP encodes an empty object as an empty array.
#[test]
fn e11_an_empty_message_from_php_is_an_object() {
    let empty = json!({"choices": [{"message": []}]});
    assert_eq!(
        assistant_messages(CHAT, &empty).unwrap(),
        [json!({"role": "assistant", "content": ""})]
    );
}
