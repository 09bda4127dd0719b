use serde_json::json;

use super::*;
use crate::tests::fixtures::{event, read_stream, request_body};
use crate::{Delta, TurnOptions};

#[test]
fn h5_messages_become_items() {
    let messages = json!([
        {"role": "system", "content": "a"},
        {"role": "developer", "content": [{"type": "text", "text": "b"}, {"type": "text", "text": "c"}]},
        {"role": "user", "content": "Draw"},
        {"role": "assistant", "refusal": "no",
         "tool_calls": [{"id": "1", "function": {"name": "draw", "arguments": {"n": 1}}}]},
        {"role": "tool", "tool_call_id": "1", "content": [
            {"type": "text", "text": "here"},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}]},
        {"role": "system", "content": "later"},
        {"role": "tool", "tool_call_id": "1", "content": null},
    ]);
    let conversation = OpenAiResponses
        .conversation(messages.as_array().unwrap())
        .unwrap();
    assert_eq!(conversation.system, Some(json!("a\n\nbc")));
    assert_eq!(
        conversation.messages,
        [
            json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Draw"}]}),
            json!({"type": "message", "role": "assistant", "content": [{"type": "refusal", "refusal": "no"}]}),
            json!({"type": "function_call", "call_id": "1", "name": "draw", "arguments": "{\"n\":1}"}),
            json!({"type": "function_call_output", "call_id": "1", "output": [
                {"type": "input_text", "text": "here"},
                {"type": "input_image", "detail": "auto", "image_url": "data:image/png;base64,aGk="}]}),
            json!({"type": "message", "role": "system", "content": [{"type": "input_text", "text": "later"}]}),
            json!({"type": "function_call_output", "call_id": "1", "output": ""}),
        ]
    );
}

/// Models without reasoning reject a request for encrypted reasoning.
#[test]
fn h5_only_reasoning_models_are_asked_for_encrypted_reasoning() {
    for (model, is_reasoning) in [
        ("gpt-5.1", true),
        ("gpt-5-mini", true),
        ("openai/o3", true),
        ("ft:o4-mini:acme::1", true),
        ("gpt-6", true),
        ("codex-mini-latest", true),
        ("gpt-5-chat-latest", false),
        ("gpt-5.1-chat-latest", false),
        ("gpt-4o", false),
        ("gpt-4.1", false),
        ("chatgpt-4o-latest", false),
        ("gpt-oss-120b", false),
        ("omni", false),
        ("", false),
    ] {
        assert_eq!(is_reasoning_model(model), is_reasoning, "{model}");
    }
}

/// A deployment at Azure may have any name.
#[test]
fn h5_the_reasoning_setting_overrides_the_name_of_the_model() {
    for (reasoning, model, is_reasoning) in [
        (None, "prod-chat", false),
        (Some(true), "prod-chat", true),
        (None, "gpt-5", true),
        (Some(false), "gpt-5", false),
    ] {
        let include = is_reasoning.then(|| json!(["reasoning.encrypted_content"]));
        let body = request_body(&OpenAiResponses, model, reasoning, &TurnOptions::default());
        assert_eq!(
            body.get("include"),
            include.as_ref(),
            "{model} {reasoning:?}"
        );
    }
}

/// Some servers send only complete items, and a last event without items.
#[test]
fn h6_items_without_deltas_are_read() {
    let call =
        json!({"type": "function_call", "call_id": "1", "name": "t", "arguments": "{\"n\":1}"});
    let bare = json!({"type": "function_call", "call_id": "2", "name": "t"});
    let events = [
        json!({"type": "response.output_item.done", "output_index": 0, "item": call}),
        json!({"type": "response.output_item.added", "output_index": 1, "item": bare}),
        json!({"type": "response.output_item.done", "output_index": 1, "item": bare}),
        json!({"type": "response.completed", "response": {"status": "completed"}}),
    ];
    let (response, deltas) = read_stream(&OpenAiResponses, &events.each_ref().map(event)).unwrap();
    assert_eq!(response.body["output"], json!([call, bare]));
    let first = |index, id: &str, arguments: &str| Delta::ToolCall {
        index,
        id: Some(id.to_owned()),
        name: Some("t".to_owned()),
        arguments: arguments.to_owned(),
    };
    assert_eq!(deltas[0], first(0, "1", "{\"n\":1}"));
    assert_eq!(deltas[1], first(1, "2", ""));
    assert!(matches!(&deltas[2], Delta::ToolCall { index: 1, arguments, .. } if arguments == "{}"));
    assert_eq!(deltas.len(), 3);
}

/// A refusal is streamed like text, and explains a response without text.
#[test]
fn h6_a_refusal_is_streamed() {
    let output =
        json!([{"type": "message", "content": [{"type": "refusal", "refusal": "I cannot."}]}]);
    let events = [
        json!({"type": "response.refusal.delta", "output_index": 0, "delta": "I cannot."}),
        json!({"type": "response.completed", "response": {"status": "completed", "output": output}}),
    ];
    let (response, deltas) = read_stream(&OpenAiResponses, &events.each_ref().map(event)).unwrap();
    assert_eq!(response.finish, Finish::Filtered);
    assert_eq!(deltas, [Delta::Text("I cannot.".to_owned())]);
}
