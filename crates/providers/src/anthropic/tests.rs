use serde_json::{Value, json};

use super::*;
use crate::tests::fixtures::{event, read_stream, request_body, turn};
use crate::{Delta, Provider, TurnResponse, parse_tool_calls};

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
    let converted = conversation(&json!([
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
    assert_eq!(converted.system, Some(json!("Be brief.")));
    assert_eq!(
        converted.messages,
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
        let converted = conversation(&json!([
            {"role": "assistant", "tool_calls": [call("a", "{}")]},
            {"role": "tool", "tool_call_id": "a", "content": content},
        ]));
        let block = &converted.messages[1]["content"][0];
        assert_eq!(block.get("is_error").is_some(), is_error, "{content}");
        assert_eq!(block["content"], content);
    }
}

#[test]
fn h1_betas_go_in_a_header() {
    let betas = |extra: Value| {
        let options = TurnOptions {
            extra: extra.as_object().unwrap().clone(),
            ..TurnOptions::default()
        };
        let body = request_body(&Anthropic, "m", None, &options);
        assert!(body.get("betas").is_none());
        let conversation = ProviderConversation::default();
        let headers = Anthropic.turn_headers(&turn(&conversation, &options));
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
        request_body(&Anthropic, "m", None, &options)["tool_choice"].clone()
    };
    let limited_choice = |kind: &str| json!({"type": kind, "disable_parallel_tool_use": true});
    assert_eq!(choice_of(None, json!({})), limited_choice("auto"));
    assert_eq!(
        choice_of(Some(ToolChoice::Required), json!({})),
        limited_choice("any")
    );
    let single_tool_choice =
        json!({"type": "tool", "name": "ping", "disable_parallel_tool_use": true});
    let ping = ToolChoice::Tool("ping".to_owned());
    assert_eq!(choice_of(Some(ping), json!({})), single_tool_choice);
    // A tool choice that forbids calls accepts no limit on the number of calls.
    let forbidden = json!({"tool_choice": {"type": "none"}});
    assert_eq!(choice_of(None, forbidden), json!({"type": "none"}));
    assert_eq!(
        choice_of(Some(ToolChoice::None), json!({})),
        json!({"type": "none"})
    );
}

fn stream(blocks: &[Value]) -> Result<(TurnResponse, Vec<Delta>), ModelError> {
    let mut events = vec![event(
        &json!({"type": "message_start", "message": {"role": "assistant", "content": [], "usage": {"input_tokens": 1}}}),
    )];
    events.extend(blocks.iter().map(event));
    events.push(event(&json!({"type": "message_delta", "delta": {"stop_reason": "max_tokens"}, "usage": {"output_tokens": 5, "input_tokens": null}}),
    ));
    events.push(event(&json!({"type": "message_stop"})));
    read_stream(&Anthropic, &events)
}

/// If the response was cut off in the arguments of a call, the arguments stay a string and the call
/// fails.
#[test]
fn a6_truncated_arguments_stay_a_string() {
    let (response, _) = stream(&[
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "tool_use", "id": "1", "name": "roll", "input": {}}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": "{\"n\": "}}),
    ])
    .unwrap();
    assert_eq!(response.body["content"][0]["input"], "{\"n\": ");
    assert_eq!(response.finish, Finish::Length);
    assert_eq!(
        (response.usage.input_tokens, response.usage.output_tokens),
        (1, 5)
    );
}

#[test]
fn h6_unknown_blocks_are_kept_and_unknown_deltas_are_ignored() {
    let (response, deltas) = stream(&[
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
        response.body["content"],
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
    let (response, _) = stream(&[
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
    assert_eq!(response.body["content"], json!(texts));
}

#[test]
fn h6_null_in_a_delta_is_an_empty_piece() {
    let delta = |delta: Value| json!({"type": "content_block_delta", "index": 0, "delta": delta});
    let (response, deltas) = stream(&[
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": "", "signature": ""}}),
        delta(json!({"type": "thinking_delta", "thinking": "Hm"})),
        delta(json!({"type": "thinking_delta", "thinking": null})),
        delta(json!({"type": "signature_delta", "signature": "c2ln"})),
        delta(json!({"type": "signature_delta", "signature": null})),
    ])
    .unwrap();
    assert_eq!(
        response.body["content"],
        json!([{"type": "thinking", "thinking": "Hm", "signature": "c2ln"}])
    );
    assert_eq!(deltas, [Delta::Thought("Hm".to_owned())]);
}

/// Without `message_stop`, a response is complete if a documented stop reason follows its last
/// content and all blocks have ended.
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

/// A response that continues after a call of Anthropic's code execution starts with a complete
/// message.
#[test]
fn h6_a_message_without_deltas_is_read() {
    let call = json!({"type": "tool_use", "id": "toolu_1", "name": "roll", "input": {"sides": 6}});
    let message = json!({"role": "assistant", "content": [{"type": "text", "text": "Hi"}, call], "stop_reason": "tool_use"});
    let start = event(&json!({"type": "message_start", "message": message}));
    let stop = event(&json!({"type": "message_stop"}));
    let (response, deltas) = read_stream(&Anthropic, &[start.clone(), stop]).unwrap();
    assert_eq!(response.body, message);
    assert_eq!(response.finish, Finish::ToolCalls);
    assert_eq!(deltas.len(), 3);
    assert!(
        matches!(&deltas[2], Delta::ToolCall { index: 0, arguments, .. } if arguments == r#"{"sides":6}"#)
    );
    // A second message within a response is invalid.
    let error = read_stream(&Anthropic, &[start.clone(), start]).unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::Malformed);
}

/// Some gateways send `message_start` twice.
#[test]
fn h6_a_message_may_start_twice() {
    let repeated_start =
        json!({"type": "message_start", "message": {"role": "assistant", "content": []}});
    let (response, _) = stream(&[
        repeated_start,
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "Hi"}}),
    ])
    .unwrap();
    assert_eq!(response.body["content"][0]["text"], "Hi");
}

#[test]
fn h6_ten_thousand_calls_are_read_in_order() {
    let blocks: Vec<_> = (0..10_000)
        .map(|n| {
            json!({"type": "content_block_start", "index": n,
                "content_block": {"type": "tool_use", "id": format!("c{n}"), "name": "t", "input": {"n": n}}})
        })
        .collect();
    let (response, deltas) = stream(&blocks).unwrap();
    let calls = parse_tool_calls(Provider::Anthropic, &response.body).unwrap();
    assert_eq!((calls.len(), deltas.len()), (10_000, 10_000));
    assert_eq!(calls[9_999].arguments, json!({"n": 9_999}));
}
