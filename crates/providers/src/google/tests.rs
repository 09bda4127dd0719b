use std::time::Duration;

use serde_json::{Value, json};

use super::*;
use crate::tests::fixtures::{event, read_stream};
use crate::{Delta, ModelErrorKind, Provider, parse_tool_calls};

fn conversation(messages: &Value) -> Result<ProviderConversation, ModelError> {
    Google.conversation(messages.as_array().unwrap())
}

#[test]
fn h1_the_model_is_one_segment_of_the_path() {
    for (model, path) in [
        ("gemini-2.5-flash", "models/gemini-2.5-flash"),
        ("models/gemini-2.5-flash", "models/gemini-2.5-flash"),
        ("tunedModels/mine-1", "tunedModels/mine-1"),
        ("../v1/x?key=1#", "models/..%2Fv1%2Fx%3Fkey%3D1%23"),
    ] {
        assert_eq!(Google.path(model, false), format!("{path}:generateContent"));
    }
    let streamed_path = Google.path("m", true);
    assert_eq!(streamed_path, "models/m:streamGenerateContent?alt=sse");
}

#[test]
fn h5_roles_alternate_and_results_have_the_names_of_their_tools() {
    let provider_conversation = conversation(&json!([
        {"role": "user", "content": ""},
        {"role": "user", "content": "a"},
        {"role": "user", "content": "b"},
        {"role": "assistant", "content": [{"type": "refusal", "refusal": "no"}],
         "tool_calls": [{"id": "1", "function": {"name": "roll", "arguments": "[]"}}]},
        {"role": "tool", "tool_call_id": "1"},
    ]))
    .unwrap();
    assert_eq!(provider_conversation.system, None);
    assert_eq!(
        provider_conversation.messages,
        [
            json!({"role": "user", "parts": [{"text": "a"}, {"text": "b"}]}),
            json!({"role": "model", "parts": [{"text": "no"}, {"functionCall": {"name": "roll", "args": {}}}]}),
            json!({"role": "user", "parts": [{"functionResponse": {"name": "roll", "response": {"result": ""}}}]}),
        ]
    );
}

/// Without IDs, the order determines which result belongs to which call.
#[test]
fn h5_results_are_in_the_order_of_their_calls() {
    let call = |id: &str, city: &str| json!({"id": id, "function": {"name": "weather", "arguments": {"city": city}}});
    let calls = |calls: &[Value]| json!({"role": "assistant", "tool_calls": calls});
    let result =
        |id: &str, text: &str| json!({"role": "tool", "tool_call_id": id, "content": text});
    let converted = conversation(&json!([
        {"role": "user", "content": "Go"},
        calls(&[call("1", "London"), call("2", "Tokyo")]),
        result("2", "sun"),
        result("1", "rain"),
        {"role": "user", "content": "Again"},
        // The IDs of the first two calls occur again, in two further messages.
        calls(&[call("2", "Oslo")]),
        calls(&[call("1", "Rome")]),
        result("1", "hail"),
        result("2", "snow"),
    ]));
    let messages = converted.unwrap().messages;
    let results = |index: usize| -> Vec<_> {
        let parts = messages[index]["parts"].as_array().unwrap().iter();
        parts
            .map(|part| match part.get("text") {
                Some(text) => text.clone(),
                None => part["functionResponse"]["response"]["result"].clone(),
            })
            .collect()
    };
    assert_eq!(results(2), ["rain", "sun", "Again"]);
    assert_eq!(results(4), ["snow", "hail"]);
}

#[test]
fn h1_an_image_as_a_result_is_rejected() {
    let error = conversation(&json!([
        {"role": "assistant", "tool_calls": [{"id": "1", "function": {"name": "draw"}}]},
        {"role": "tool", "tool_call_id": "1", "content": [
            {"type": "image_url", "image_url": {"url": "https://h.example/x.png"}}]},
    ]))
    .unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::Rejected);
    let expected = "messages[1].content has an image, but a tool result must be text";
    assert_eq!(error.message, expected);
}

/// Gemini 3 rejects a call without a signature; earlier models have no signatures.
#[test]
fn h5_calls_of_other_providers_are_signed_for_gemini_3_and_later() {
    for (model, needs_signature) in [
        ("gemini-2.5-pro", false),
        ("models/gemini-3-pro-preview", true),
        ("gemini-3.1-flash-lite", true),
        ("gemini-12-nano", true),
        ("gemini-flash-latest", true),
        ("gemma-3-27b-it", false),
    ] {
        assert_eq!(requires_signatures(model), needs_signature, "{model}");
    }
    let call = |signature: Option<&str>| {
        let mut part = json!({"functionCall": {"name": "roll"}});
        if let Some(signature) = signature {
            part["thoughtSignature"] = json!(signature);
        }
        part
    };
    let mut google_content =
        json!({"role": "model", "parts": [{"text": "x"}, call(Some("own")), call(None)]});
    let original_content = google_content.clone();
    sign_first_call(&mut google_content);
    assert_eq!(google_content, original_content);
    let mut other = json!({"role": "model", "parts": [call(None), call(None)]});
    sign_first_call(&mut other);
    assert_eq!(
        other,
        json!({"role": "model", "parts": [call(Some(PLACEHOLDER_SIGNATURE)), call(None)]})
    );
}

#[test]
fn h1_a_blocked_prompt_is_filtered() {
    let blocked = json!({"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": {"promptTokenCount": 4, "toolUsePromptTokenCount": 2}});
    let response = Google.parse_response(blocked.clone()).unwrap();
    assert_eq!(response.finish, Finish::Filtered);
    assert_eq!(response.usage.input_tokens, 6);
    let (streamed, _) = read_stream(&Google, &[event(&blocked)]).unwrap();
    assert_eq!(streamed, response);
}

#[test]
fn h4_the_delay_of_an_error_is_read() {
    let body = |code: u16, status: &str, message: &str, details: Value| json!({"error": {"code": code, "status": status, "message": message, "details": details}});
    let exhausted = body(
        429,
        "RESOURCE_EXHAUSTED",
        "You exceeded your current quota. See https://ai.google.dev/gemini-api/docs/rate-limits",
        json!([
            {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": []},
            {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "47.5s"},
        ]),
    );
    let error = Google.parse_response(exhausted.clone()).unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::RateLimited);
    assert_eq!(error.retry_after, Some(Duration::from_millis(47_500)));
    let streamed = read_stream(&Google, &[event(&exhausted)]).unwrap_err();
    assert_eq!(streamed, error);
    for delay in ["-1s", "NaNs", "1e400s", "x"] {
        let body = body(429, "X", "", json!([{"retryDelay": delay}]));
        let error = Google.parse_response(body).unwrap_err();
        assert_eq!(error.retry_after, None, "{delay}");
    }
}

fn chunk(parts: &Value) -> Value {
    json!({"candidates": [{"content": {"parts": parts, "role": "model"}}]})
}

fn stream(chunks: &[Value]) -> Result<(TurnResponse, Vec<Delta>), ModelError> {
    let mut events: Vec<_> = chunks.iter().map(event).collect();
    events.push(event(&json!({"candidates": [{"finishReason": "STOP"}]})));
    read_stream(&Google, &events)
}

/// Google's documentation forbids merging a part that has a signature with another part.
#[test]
fn h6_parts_with_signatures_are_not_merged() {
    let (response, deltas) = stream(&[
        chunk(
            &json!([{"text": "a", "thought": true}, {"text": "b", "thought": true}, {"text": "c"}]),
        ),
        chunk(&json!([{"text": "d"}, {"text": "e", "thoughtSignature": "s1"}])),
        chunk(&json!([{"text": "f"}, {"text": "", "thoughtSignature": "s2"}])),
        chunk(&json!([{"text": ""}])),
        chunk(&json!([{"inlineData": {"mimeType": "image/png", "data": "aGk="}}, {"text": ""}])),
    ])
    .unwrap();
    assert_eq!(
        response.body["candidates"][0]["content"]["parts"],
        json!([
            {"text": "ab", "thought": true},
            {"text": "cd"},
            {"text": "e", "thoughtSignature": "s1"},
            {"text": "f"},
            {"text": "", "thoughtSignature": "s2"},
            {"inlineData": {"mimeType": "image/png", "data": "aGk="}},
        ])
    );
    let words = ["c", "d", "e", "f"].map(|text| Delta::Text(text.to_owned()));
    assert_eq!(deltas[2..], words);
    assert_eq!(deltas[0], Delta::Thought("a".to_owned()));
}

/// Calls without an ID have the same generated IDs in the stream and in the complete response.
#[test]
fn h6_streamed_calls_without_ids_get_the_same_ids_as_in_a_response() {
    let part = json!({"functionCall": {"name": "roll"}});
    let with_id = |mut chunk: Value, id: &str| {
        chunk["responseId"] = json!(id);
        chunk
    };
    for chunks in [
        vec![chunk(&json!([part, part]))],
        vec![with_id(chunk(&json!([part])), "r1"), chunk(&json!([part]))],
        // The response ID arrives after the first call.
        vec![chunk(&json!([part])), with_id(chunk(&json!([part])), "r1")],
    ] {
        let (response, deltas) = stream(&chunks).unwrap();
        let calls = parse_tool_calls(Provider::Google, &response.body).unwrap();
        assert_eq!(response.finish, Finish::ToolCalls);
        let ids = deltas.iter().map(|delta| match delta {
            Delta::ToolCall { id, arguments, .. } => {
                assert_eq!(arguments, "{}");
                id.as_ref().unwrap()
            }
            other => panic!("{other:?}"),
        });
        let whole = calls.iter().map(|call| &call.id);
        assert_eq!(Vec::from_iter(ids), Vec::from_iter(whole));
    }
}

#[test]
fn h6_other_candidates_are_ignored_and_split_calls_are_joined() {
    let two_candidates = json!({"candidates": [
        {"index": 1, "content": {"parts": [{"text": "second"}]}},
        {"index": 0, "content": {"parts": [{"text": "first"}]}},
    ]});
    let (response, deltas) = stream(&[two_candidates]).unwrap();
    assert_eq!(deltas, [Delta::Text("first".to_owned())]);
    assert_eq!(response.body["candidates"].as_array().unwrap().len(), 1);

    for call in [
        json!({"name": "x", "willContinue": true}),
        json!({"partialArgs": []}),
    ] {
        let error = stream(&[chunk(&json!([{"functionCall": call}]))]).unwrap_err();
        assert_eq!(error.kind, ModelErrorKind::Malformed);
    }
    for broken in [
        json!([[]]),
        json!({"candidates": {}}),
        json!({"candidates": [{"content": "x"}]}),
        chunk(&json!({})),
    ] {
        let error = stream(std::slice::from_ref(&broken)).unwrap_err();
        assert_eq!(error.kind, ModelErrorKind::Malformed, "{broken}");
    }
}
