use serde_json::{Value, json};

use super::super::stream_tests::{event, read_stream};
use super::*;
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
    let written = OpenAiResponses::default()
        .conversation(messages.as_array().unwrap())
        .unwrap();
    assert_eq!(written.system, Some(json!("a\n\nbc")));
    assert_eq!(
        written.messages,
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

/// Other models reject a request for encrypted reasoning.
#[test]
fn h5_only_reasoning_models_are_asked_for_encrypted_reasoning() {
    for (model, thinks) in [
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
        assert_eq!(is_reasoning_model(model), thinks, "{model}");
    }
}

/// A deployment at Azure may have any name.
#[test]
fn h5_the_reasoning_setting_overrides_the_name_of_the_model() {
    let conversation = ProviderConversation::default();
    let turn = ModelTurn {
        conversation: &conversation,
        tools: &[],
        options: &TurnOptions::default(),
        stream: false,
        deadline: std::time::Instant::now(),
    };
    for (reasoning, model, thinks) in [
        (None, "prod-chat", false),
        (Some(true), "prod-chat", true),
        (None, "gpt-5", true),
        (Some(false), "gpt-5", false),
    ] {
        let include = thinks.then(|| json!(["reasoning.encrypted_content"]));
        let body = OpenAiResponses { reasoning }.body(model, &turn);
        assert_eq!(
            body.get("include"),
            include.as_ref(),
            "{model} {reasoning:?}"
        );
    }
}

#[test]
fn h1_finish_reasons_are_read() {
    let message = |part: Value| json!([{"type": "message", "content": [part]}]);
    let text = || message(json!({"type": "output_text", "text": "x"}));
    let call = json!({"type": "function_call", "call_id": "1", "name": "t", "arguments": "{}"});
    let other = |word: &str| Finish::Other(word.to_owned());
    for (status, reason, output, finish) in [
        ("completed", json!(null), text(), Finish::Stop),
        ("completed", json!(null), json!([call]), Finish::ToolCalls),
        (
            "incomplete",
            json!("max_output_tokens"),
            json!([call]),
            Finish::Length,
        ),
        (
            "incomplete",
            json!("content_filter"),
            text(),
            Finish::Filtered,
        ),
        ("incomplete", json!("boredom"), text(), other("boredom")),
        (
            "incomplete",
            json!("boredom"),
            json!([call]),
            Finish::Length,
        ),
        ("incomplete", json!(null), json!([call]), Finish::Length),
        ("failed", json!(null), json!([call]), Finish::Length),
        ("cancelled", json!(null), json!([call]), Finish::Length),
        (
            "completed",
            json!(null),
            message(json!({"type": "refusal", "refusal": "no"})),
            Finish::Filtered,
        ),
        ("cancelled", json!(null), text(), other("cancelled")),
        (
            "completed",
            json!(null),
            json!([{"type": "mcp_approval_request", "id": "1"}]),
            other("mcp_approval_request"),
        ),
    ] {
        let body =
            json!({"status": status, "incomplete_details": {"reason": reason}, "output": output});
        assert_eq!(
            OpenAiResponses::default().answer(body).unwrap().finish,
            finish
        );
    }
}

#[test]
fn h4_failures_have_a_kind_and_no_key() {
    let body = |kind: &str, code: Value, message: &str| json!({"error": {"message": message, "type": kind, "param": null, "code": code}});
    for (status, body, kind, words) in [
        (
            401,
            body(
                "invalid_request_error",
                json!("invalid_api_key"),
                "Incorrect API key provided: sk-abc***xyz.",
            ),
            ModelErrorKind::Unauthorized,
            "rejected the API key, or the key lacks permission for the request (HTTP 401)",
        ),
        (
            429,
            body(
                "insufficient_quota",
                json!("insufficient_quota"),
                "You exceeded your current quota",
            ),
            ModelErrorKind::Exhausted,
            "reported that the account's quota or credit is used up (HTTP 429): You exceeded your \
             current quota",
        ),
        (
            400,
            body(
                "invalid_request_error",
                json!("context_length_exceeded"),
                "Too long",
            ),
            ModelErrorKind::ContextTooLong,
            "rejected the conversation as too long (HTTP 400): Too long",
        ),
        (
            400,
            body(
                "invalid_request_error",
                json!(null),
                "Your input exceeds the context window of this model.",
            ),
            ModelErrorKind::ContextTooLong,
            "rejected the conversation as too long (HTTP 400): Your input exceeds the context \
             window of this model.",
        ),
        (
            400,
            body(
                "invalid_request_error",
                json!("unknown_parameter"),
                "Unknown parameter: 'x'.",
            ),
            ModelErrorKind::Refused,
            "rejected the request (HTTP 400): Unknown parameter: 'x'.",
        ),
        (
            503,
            json!({"error": "Slow down"}),
            ModelErrorKind::Unavailable,
            "is temporarily unavailable (HTTP 503): Slow down",
        ),
    ] {
        let error = OpenAiResponses::default().failure(status, body.to_string().as_bytes());
        let words = format!("The provider 'openai-responses' {words}");
        assert_eq!((error.kind, error.message), (kind, words));
    }
}

/// The three error events of a stream, and the error in an unstreamed response.
#[test]
fn h4_an_error_in_a_response_of_status_200_is_an_error() {
    let error = json!({"code": "server_error", "message": "Try again"});
    let failed = json!({"status": "failed", "error": error, "output": []});
    for events in [
        json!({"type": "response.failed", "response": failed}),
        json!({"type": "error", "code": "server_error", "message": "Try again", "param": null}),
        json!({"type": "error", "error": error}),
        json!({"error": error}),
    ] {
        let error = read_stream(&OpenAiResponses::default(), &[event(&events)]).unwrap_err();
        assert_eq!(error.kind, ModelErrorKind::Unavailable);
        assert_eq!(
            error.message,
            "The provider 'openai-responses' is temporarily unavailable: Try again"
        );
    }
    let error = OpenAiResponses::default().answer(failed).unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::Unavailable);
    let error = OpenAiResponses::default()
        .answer(json!({"status": "completed"}))
        .unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::Malformed);
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
    let (answer, deltas) =
        read_stream(&OpenAiResponses::default(), &events.each_ref().map(event)).unwrap();
    assert_eq!(answer.body["output"], json!([call, bare]));
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

/// A refusal is streamed like text, and explains an answer without text.
#[test]
fn h6_a_refusal_is_streamed() {
    let output =
        json!([{"type": "message", "content": [{"type": "refusal", "refusal": "I cannot."}]}]);
    let events = [
        json!({"type": "response.refusal.delta", "output_index": 0, "delta": "I cannot."}),
        json!({"type": "response.completed", "response": {"status": "completed", "output": output}}),
    ];
    let (answer, deltas) =
        read_stream(&OpenAiResponses::default(), &events.each_ref().map(event)).unwrap();
    assert_eq!(answer.finish, Finish::Filtered);
    assert_eq!(deltas, [Delta::Text("I cannot.".to_owned())]);
}
