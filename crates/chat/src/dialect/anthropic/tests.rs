use std::time::Instant;

use serde_json::{Value, json};

use super::super::stream_tests::{event, read_stream};
use super::*;
use crate::{Delta, TurnOptions};

fn conversation(messages: &Value) -> ProviderConversation {
    Anthropic
        .conversation(messages.as_array().unwrap())
        .unwrap()
}

fn call(id: &str, arguments: &str) -> Value {
    json!({"id": id, "type": "function", "function": {"name": "roll", "arguments": arguments}})
}

/// Results come first in their message, even if the application put text before them. Ids, texts
/// and arguments that the API rejects are repaired.
#[test]
fn h5_a_history_of_another_provider_is_valid_for_anthropic() {
    let written = conversation(&json!([
        {"role": "system", "content": " "},
        {"role": "assistant", "content": null, "refusal": "I must not."},
        {"role": "assistant", "content": "  ", "tool_calls": [call("functions.roll:0", "{bad"), call("b", "")]},
        {"role": "user", "content": "Well?"},
        {"role": "tool", "tool_call_id": "functions.roll:0", "content": "{\"error\": \"no\"}"},
        {"role": "tool", "tool_call_id": "b", "content": ""},
        {"role": "system", "content": "Be brief."},
        {"role": "user", "name": "Ada", "content": [
            {"type": "image_url", "image_url": {"url": "https://h.example/x.png"}}]},
    ]));
    assert_eq!(written.system, Some(json!("Be brief.")));
    assert_eq!(
        written.messages,
        [
            json!({"role": "assistant", "content": [
                {"type": "text", "text": "I must not."},
                {"type": "tool_use", "id": "functions_roll_0", "name": "roll", "input": {"INVALID_JSON": "{bad"}},
                {"type": "tool_use", "id": "b", "name": "roll", "input": {}},
            ]}),
            json!({"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "functions_roll_0", "content": "{\"error\": \"no\"}", "is_error": true},
                {"type": "tool_result", "tool_use_id": "b"},
                {"type": "text", "text": "Well?"},
                {"type": "text", "text": "Ada:"},
                {"type": "image", "source": {"type": "url", "url": "https://h.example/x.png"}},
            ]}),
        ]
    );
}

/// A result with other members besides `error` is not a failed result.
#[test]
fn a8_only_the_error_form_of_a_result_is_a_failed_result() {
    for (content, is_error) in [
        ("{\"error\": \"no\"}", true),
        ("{\"error\": null}", false),
        ("{\"error\": \"no\", \"rows\": []}", false),
        ("Error: no", false),
    ] {
        let written = conversation(&json!([
            {"role": "assistant", "tool_calls": [call("a", "{}")]},
            {"role": "tool", "tool_call_id": "a", "content": content},
        ]));
        let block = &written.messages[1]["content"][0];
        assert_eq!(block.get("is_error").is_some(), is_error, "{content}");
        assert_eq!(block["content"], content);
    }
}

#[test]
fn h1_finish_reason_and_usage_are_read() {
    for (reason, finish) in [
        (json!("end_turn"), Finish::Stop),
        (json!("stop_sequence"), Finish::Stop),
        (json!("max_tokens"), Finish::Length),
        (json!("model_context_window_exceeded"), Finish::Length),
        (json!("refusal"), Finish::Filtered),
        (json!("pause_turn"), Finish::Other("pause_turn".to_owned())),
        // Without a call of Pillion's tools.
        (json!("tool_use"), Finish::Other("tool_use".to_owned())),
        (json!(null), Finish::Stop),
    ] {
        let body = json!({"content": [], "stop_reason": reason});
        let answer = Anthropic.answer(body).unwrap();
        assert_eq!(answer.finish, finish);
        assert_eq!(answer.usage, Usage::default());
    }
}

/// Returns a turn without tools.
fn turn<'a>(conversation: &'a ProviderConversation, options: &'a TurnOptions) -> ModelTurn<'a> {
    ModelTurn {
        conversation,
        tools: &[],
        options,
        stream: false,
        deadline: Instant::now(),
    }
}

#[test]
fn h1_betas_go_in_a_header() {
    let betas = |extra: Value| {
        let options = TurnOptions {
            extra: extra.as_object().unwrap().clone(),
            ..TurnOptions::default()
        };
        let conversation = ProviderConversation::default();
        let turn = turn(&conversation, &options);
        assert!(Anthropic.body("m", &turn).get("betas").is_none());
        let headers = Anthropic.turn_headers(&turn);
        let header = headers.get("anthropic-beta")?;
        Some(header.to_str().unwrap().to_owned())
    };
    assert_eq!(betas(json!({})), None);
    assert_eq!(betas(json!({"betas": ["a-1", "b-2"]})).unwrap(), "a-1,b-2");
    let servers = json!([{"type": "url"}]);
    assert_eq!(
        betas(json!({"betas": ["a-1"], "mcp_servers": servers})).unwrap(),
        "a-1,mcp-client-2025-11-20"
    );
    assert_eq!(
        betas(json!({"betas": ["mcp-client-2099-01-01"], "mcp_servers": servers})).unwrap(),
        "mcp-client-2099-01-01"
    );
    // The value is not a valid header value.
    assert_eq!(betas(json!({"betas": ["a\n"]})), None);
}

#[test]
fn h4_parallel_calls_can_be_disabled_with_every_tool_choice() {
    let tools = json!([{"name": "ping", "input_schema": {"type": "object"}}]);
    let choice_of = |choice: Option<ToolChoice>, extra: Value| {
        let mut extra = extra.as_object().unwrap().clone();
        extra.insert("tools".to_owned(), tools.clone());
        let options = TurnOptions {
            tool_choice: choice,
            one_call_at_a_time: true,
            extra,
            ..TurnOptions::default()
        };
        let conversation = ProviderConversation::default();
        let turn = turn(&conversation, &options);
        Anthropic.body("m", &turn)["tool_choice"].clone()
    };
    let alone = |kind: &str| json!({"type": kind, "disable_parallel_tool_use": true});
    assert_eq!(choice_of(None, json!({})), alone("auto"));
    assert_eq!(
        choice_of(Some(ToolChoice::Required), json!({})),
        alone("any")
    );
    let one = json!({"type": "tool", "name": "ping", "disable_parallel_tool_use": true});
    let ping = ToolChoice::Tool("ping".to_owned());
    assert_eq!(choice_of(Some(ping), json!({})), one);
    // A choice that forbids calls has no limit on their number.
    let forbidden = json!({"tool_choice": {"type": "none"}});
    assert_eq!(choice_of(None, forbidden), json!({"type": "none"}));
    assert_eq!(
        choice_of(Some(ToolChoice::None), json!({})),
        json!({"type": "none"})
    );
}

#[test]
fn h4_failures_have_a_kind_and_no_key() {
    let body = |kind: &str, message: &str| {
        json!({"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"})
            .to_string()
    };
    for (status, body, kind, words) in [
        (
            401,
            body("authentication_error", "invalid x-api-key sk-ant-123"),
            ModelErrorKind::Unauthorized,
            "The provider 'anthropic' rejected the API key, or the key lacks permission for the \
             request (HTTP 401)",
        ),
        (
            429,
            body(
                "rate_limit_error",
                "Number of requests has exceeded your rate limit",
            ),
            ModelErrorKind::RateLimited,
            "The provider 'anthropic' has rate-limited the request (HTTP 429): Number of requests \
             has exceeded your rate limit",
        ),
        (
            529,
            body("overloaded_error", "Overloaded"),
            ModelErrorKind::Unavailable,
            "The provider 'anthropic' is temporarily unavailable (HTTP 529): Overloaded",
        ),
        (
            400,
            body(
                "invalid_request_error",
                "prompt is too long: 210000 tokens > 200000 maximum",
            ),
            ModelErrorKind::ContextTooLong,
            "The provider 'anthropic' rejected the conversation as too long (HTTP 400): prompt is \
             too long: 210000 tokens > 200000 maximum",
        ),
        (
            400,
            body("invalid_request_error", "Your credit balance is too low"),
            ModelErrorKind::Exhausted,
            "The provider 'anthropic' reported that the account's quota or credit is used up \
             (HTTP 400): Your credit balance is too low",
        ),
        (
            400,
            body("invalid_request_error", "messages.0: bad"),
            ModelErrorKind::Refused,
            "The provider 'anthropic' rejected the request (HTTP 400): messages.0: bad",
        ),
        (
            502,
            "<html>Bad gateway</html>".to_owned(),
            ModelErrorKind::Unavailable,
            "The provider 'anthropic' is temporarily unavailable (HTTP 502)",
        ),
        (
            404,
            String::new(),
            ModelErrorKind::Refused,
            "The provider 'anthropic' rejected the request (HTTP 404)",
        ),
    ] {
        let error = Anthropic.failure(status, body.as_bytes());
        assert_eq!((error.kind, error.message.as_str()), (kind, words));
        assert_eq!(error.status, Some(status));
    }
}

#[test]
fn h4_an_error_in_a_response_of_status_200_is_an_error() {
    let overloaded =
        json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}});
    let error = Anthropic.answer(overloaded.clone()).unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::Unavailable);
    assert_eq!(
        error.message,
        "The provider 'anthropic' is temporarily unavailable: Overloaded"
    );
    let start = json!({"type": "message_start", "message": {"content": []}});
    let streamed = read_stream(&Anthropic, &[event(&start), event(&overloaded)]);
    assert_eq!(streamed.unwrap_err(), error);

    let unknown = json!({"error": {"type": "new_error", "message": "what"}});
    let error = Anthropic.answer(unknown).unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::Malformed);
    let error = Anthropic.answer(json!({"type": "message"})).unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::Malformed);
    assert_eq!(
        error.message,
        "Malformed response of the provider 'anthropic': content is missing"
    );
}

fn stream(blocks: &[Value]) -> Result<(TurnAnswer, Vec<Delta>), ModelError> {
    let mut events = vec![event(
        &json!({"type": "message_start", "message": {"role": "assistant", "content": [], "usage": {"input_tokens": 1}}}),
    )];
    events.extend(blocks.iter().map(event));
    events.push(event(&json!({"type": "message_delta", "delta": {"stop_reason": "max_tokens"}, "usage": {"output_tokens": 5, "input_tokens": null}}),
    ));
    events.push(event(&json!({"type": "message_stop"})));
    read_stream(&Anthropic, &events)
}

/// If the answer ended in the arguments of a call, the arguments stay as they are and the call
/// fails.
#[test]
fn a6_truncated_arguments_stay_a_string() {
    let (answer, _) = stream(&[
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "tool_use", "id": "1", "name": "roll", "input": {}}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": "{\"n\": "}}),
    ])
    .unwrap();
    assert_eq!(answer.body["content"][0]["input"], "{\"n\": ");
    assert_eq!(answer.finish, Finish::Length);
    assert_eq!(
        (answer.usage.input_tokens, answer.usage.output_tokens),
        (1, 5)
    );
}

#[test]
fn h6_unknown_blocks_are_kept_and_unknown_deltas_are_ignored() {
    let (answer, deltas) = stream(&[
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "hologram", "rays": 3}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "ray_delta", "ray": 1}}),
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": "", "citations": null}}),
        json!({"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "Hi"}}),
        json!({"type": "content_block_delta", "index": 1, "delta": {"type": "citations_delta", "citation": {"a": 1}}}),
        json!({"type": "content_block_delta", "index": 1, "delta": {"type": "citations_delta", "citation": {"a": 2}}}),
    ])
    .unwrap();
    assert_eq!(
        answer.body["content"],
        json!([{"type": "hologram", "rays": 3},
               {"type": "text", "text": "Hi", "citations": [{"a": 1}, {"a": 2}]}])
    );
    assert_eq!(deltas, [Delta::Text("Hi".to_owned())]);
}

#[test]
fn h6_events_out_of_order_are_malformed() {
    for block in [
        json!({"type": "content_block_start", "index": 0, "content_block": "text"}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "x"}}),
        json!({"type": "content_block_delta", "delta": {"type": "text_delta", "text": "x"}}),
    ] {
        let error = stream(std::slice::from_ref(&block)).unwrap_err();
        assert_eq!(error.kind, ModelErrorKind::Malformed, "{block}");
    }
    let early = event(&json!({"type": "message_stop"}));
    let error = read_stream(&Anthropic, &[early]).unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::Malformed);
}

/// Blocks are in the order of their start events, whatever their indices are.
#[test]
fn h6_deltas_go_to_the_newest_block_with_their_index() {
    let start = |index: Value| json!({"type": "content_block_start", "index": index, "content_block": {"type": "text", "text": ""}});
    let delta = |index: Value, text: &str| json!({"type": "content_block_delta", "index": index, "delta": {"type": "text_delta", "text": text}});
    let stop = |index: Value| json!({"type": "content_block_stop", "index": index});
    let (answer, _) = stream(&[
        start(json!(1_000_000_000_000_u64)),
        start(json!(0)),
        delta(json!(1_000_000_000_000_u64), "a"),
        delta(json!(0), "b"),
        stop(json!(7)),
        stop(json!(0)),
        start(json!(0)),
        delta(json!(0), "c"),
        start(json!(null)),
        delta(json!(null), "d"),
        stop(json!(null)),
    ])
    .unwrap();
    let texts = ["a", "b", "c", "d"].map(|text| json!({"type": "text", "text": text}));
    assert_eq!(answer.body["content"], json!(texts));
}

#[test]
fn h6_null_in_a_delta_is_an_empty_piece() {
    let delta = |delta: Value| json!({"type": "content_block_delta", "index": 0, "delta": delta});
    let (answer, deltas) = stream(&[
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": "", "signature": ""}}),
        delta(json!({"type": "thinking_delta", "thinking": "Hm"})),
        delta(json!({"type": "thinking_delta", "thinking": null})),
        delta(json!({"type": "signature_delta", "signature": "c2ln"})),
        delta(json!({"type": "signature_delta", "signature": null})),
    ])
    .unwrap();
    assert_eq!(
        answer.body["content"],
        json!([{"type": "thinking", "thinking": "Hm", "signature": "c2ln"}])
    );
    assert_eq!(deltas, [Delta::Thought("Hm".to_owned())]);
}

/// Without `message_stop`, an answer is complete if a documented reason follows its last content and
/// all blocks have ended.
#[test]
fn h6_a_stop_reason_ends_an_answer_whose_blocks_have_ended() {
    let events = |start_reason: Value, reason: &str| {
        let events = [
            json!({"type": "message_start", "message": {"role": "assistant", "content": [], "stop_reason": start_reason}}),
            json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "Hi"}}),
            json!({"type": "message_delta", "delta": {"stop_reason": reason}}),
            json!({"type": "content_block_stop", "index": 0}),
        ];
        events.each_ref().map(event)
    };
    let mut stream = Anthropic.stream();
    for event in &events(json!(null), "end_turn") {
        assert!(!stream.is_complete_if_broken(), "{event:?}");
        stream.push(event, &mut Vec::new()).unwrap();
    }
    assert!(stream.is_complete_if_broken() && !stream.is_complete());
    assert_eq!(stream.finish().unwrap().finish, Finish::Stop);

    let early_reason = events(json!("end_turn"), "end_turn");
    for count in 0..early_reason.len() {
        assert!(read_stream(&Anthropic, &early_reason[..count]).is_err());
    }
    assert!(read_stream(&Anthropic, &early_reason).is_ok());
    assert!(read_stream(&Anthropic, &events(json!(null), "bored")).is_err());
    let mut late_block = early_reason.to_vec();
    late_block.push(event(
        &json!({"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": ""}}),
    ));
    late_block.push(event(&json!({"type": "content_block_stop", "index": 1})));
    assert!(read_stream(&Anthropic, &late_block).is_err());
}

/// An answer that continues after a call of Anthropic's code execution starts with a complete
/// message.
#[test]
fn h6_a_message_without_deltas_is_read() {
    let call = json!({"type": "tool_use", "id": "toolu_1", "name": "roll", "input": {"sides": 6}});
    let message = json!({"role": "assistant", "content": [{"type": "text", "text": "Hi"}, call], "stop_reason": "tool_use"});
    let start = event(&json!({"type": "message_start", "message": message}));
    let stop = event(&json!({"type": "message_stop"}));
    let (answer, deltas) = read_stream(&Anthropic, &[start.clone(), stop]).unwrap();
    assert_eq!(answer.body, message);
    assert_eq!(answer.finish, Finish::ToolCalls);
    assert_eq!(deltas.len(), 3);
    assert!(
        matches!(&deltas[2], Delta::ToolCall { index: 0, arguments, .. } if arguments == r#"{"sides":6}"#)
    );
    // A second message within an answer is invalid.
    let error = read_stream(&Anthropic, &[start.clone(), start]).unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::Malformed);
}

/// Some gateways send `message_start` twice.
#[test]
fn h6_a_message_may_start_twice() {
    let again = json!({"type": "message_start", "message": {"role": "assistant", "content": []}});
    let (answer, _) = stream(&[
        again,
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "Hi"}}),
    ])
    .unwrap();
    assert_eq!(answer.body["content"][0]["text"], "Hi");
}

#[test]
fn h6_ten_thousand_calls_are_read_in_order() {
    let blocks: Vec<_> = (0..10_000)
        .map(|n| {
            json!({"type": "content_block_start", "index": n,
                "content_block": {"type": "tool_use", "id": format!("c{n}"), "name": "t", "input": {"n": n}}})
        })
        .collect();
    let (answer, deltas) = stream(&blocks).unwrap();
    let calls = parse_tool_calls(Provider::Anthropic, &answer.body).unwrap();
    assert_eq!((calls.len(), deltas.len()), (10_000, 10_000));
    assert_eq!(calls[9_999].arguments, json!({"n": 9_999}));
}
