//! Tests for the streams of all providers.

use std::fs;

use pillion_sse::SseEvent;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::tests::fixtures::{event, events, joined, read_stream};
use crate::tests::golden::{cases, json_of};
use crate::{ModelErrorKind, Provider, assistant_text, parse_tool_calls};

#[test]
fn h6_the_deltas_of_an_answer_add_up_to_the_answer() {
    for api in Provider::ALL.map(Provider::api) {
        let provider = api.provider();
        for case in cases(provider) {
            let text = fs::read_to_string(case.join("stream.sse")).unwrap();
            let (response, deltas) = read_stream(api, &events(&text)).unwrap();
            let (joined_text, calls) = joined(&deltas);
            assert_eq!(
                joined_text,
                assistant_text(provider, &response.body).unwrap()
            );
            let whole = parse_tool_calls(provider, &response.body).unwrap();
            assert_eq!(calls.len(), whole.len());
            for ((id, name, arguments), call) in calls.iter().zip(&whole) {
                assert_eq!((id, name), (&call.id, &call.name));
                let arguments: Value = serde_json::from_str(arguments).unwrap();
                assert_eq!(arguments, call.arguments_object());
            }
        }
    }
}

/// A stream that breaks off is not a response, and a stream is complete only at its end.
#[test]
fn h6_a_stream_that_breaks_off_is_malformed() {
    for api in Provider::ALL.map(Provider::api) {
        for case in cases(api.provider()) {
            let text = fs::read_to_string(case.join("stream.sse")).unwrap();
            let all = events(&text);
            for end in 0..all.len() {
                let mut stream = api.stream();
                let mut deltas = Vec::new();
                for event in &all[..end] {
                    stream.push(event, &mut deltas).unwrap();
                }
                assert!(!stream.is_complete(), "{case:?} at {end}");
                let has_reason = |event: &SseEvent| {
                    [r#""finish_reason":""#, r#""stop_reason":""#]
                        .into_iter()
                        .any(|reason| event.data.contains(reason))
                };
                if all[..end].iter().any(has_reason) {
                    // Compatible servers may omit `[DONE]` or `message_stop`.
                    continue;
                }
                let error = stream.finish().unwrap_err();
                assert_eq!(error.kind, ModelErrorKind::Malformed);
                assert!(error.message.ends_with("the stream ended early"), "{error}");
            }
        }
    }
}

#[test]
fn h6_an_event_that_is_not_json_is_malformed() {
    for api in Provider::ALL.map(Provider::api) {
        for data in ["{\"type\": \"ping", "<html>", "{} {}"] {
            let error = read_stream(api, &[event(data)]).unwrap_err();
            assert_eq!(error.kind, ModelErrorKind::Malformed, "{data}");
        }
    }
}

/// Readers ignore unknown events, events with blank data, and the `[DONE]` that some servers add.
#[test]
fn h6_unknown_events_are_ignored() {
    for api in Provider::ALL.map(Provider::api) {
        for case in cases(api.provider()) {
            let text = fs::read_to_string(case.join("stream.sse")).unwrap();
            let mut all = events(&text);
            let (expected, _) = read_stream(api, &all).unwrap();
            let has_types = matches!(
                api.provider(),
                Provider::Anthropic | Provider::OpenAiResponses
            );
            all.insert(1, event(""));
            all.insert(0, event(" \n"));
            if has_types {
                all.insert(1, event(&json!({"type": "response.thing.new", "x": 1})));
            }
            all.push(event("[DONE]"));
            let (response, _) = read_stream(api, &all).unwrap();
            assert_eq!(response, expected);
        }
    }
}

fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        ".{0,8}".prop_map(Value::from),
        prop::sample::select(vec!["tool_use", "text", "function_call", "message", "STOP"])
            .prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        let keys = prop::sample::select(vec![
            "type",
            "index",
            "delta",
            "content_block",
            "message",
            "content",
            "error",
            "usage",
            "candidates",
            "parts",
            "text",
            "functionCall",
            "args",
            "name",
            "id",
            "item",
            "output_index",
            "response",
            "output",
            "input",
            "partial_json",
            "promptFeedback",
        ]);
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((keys, inner), 0..5).prop_map(|members| Value::Object(
                members
                    .into_iter()
                    .map(|(key, value)| (key.to_owned(), value))
                    .collect()
            )),
        ]
    })
}

/// Collects the JSON pointers to all values within a value.
fn pointers(value: &Value, at: &str, into: &mut Vec<String>) {
    into.push(at.to_owned());
    match value {
        Value::Object(members) => {
            for (key, member) in members {
                pointers(member, &format!("{at}/{key}"), into);
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                pointers(item, &format!("{at}/{index}"), into);
            }
        }
        _ => {}
    }
}

/// Cuts a text into pieces at positions that `cuts` choose.
fn pieces<'a>(text: &'a str, cuts: &[prop::sample::Index]) -> Vec<&'a str> {
    let mut at: Vec<_> = cuts
        .iter()
        .filter(|_| !text.is_empty())
        .map(|cut| cut.index(text.len()))
        .filter(|at| text.is_char_boundary(*at))
        .chain([0, text.len()])
        .collect();
    at.sort_unstable();
    at.windows(2).map(|pair| &text[pair[0]..pair[1]]).collect()
}

/// Returns the events of a response with `text` and one call, cut into pieces.
fn stream_of(provider: Provider, text: &[&str], arguments: &[&str]) -> Vec<SseEvent> {
    let mut all = Vec::new();
    match provider {
        Provider::Anthropic => {
            all.push(
                json!({"type": "message_start", "message": {"role": "assistant", "content": []}}),
            );
            all.push(json!({"type": "content_block_start", "index": 0,
                "content_block": {"type": "text", "text": ""}}));
            all.extend(text.iter().map(|text| {
                json!({"type": "content_block_delta", "index": 0,
                    "delta": {"type": "text_delta", "text": text}})
            }));
            all.push(json!({"type": "content_block_stop", "index": 0}));
            all.push(json!({"type": "content_block_start", "index": 1,
                "content_block": {"type": "tool_use", "id": "c", "name": "t", "input": {}}}));
            all.extend(arguments.iter().map(|json| {
                json!({"type": "content_block_delta", "index": 1,
                    "delta": {"type": "input_json_delta", "partial_json": json}})
            }));
            all.push(json!({"type": "content_block_stop", "index": 1}));
            all.push(json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}}));
            all.push(json!({"type": "message_stop"}));
        }
        Provider::OpenAiResponses => {
            // The streamed events are those of a server whose last event has no output.
            all.extend(text.iter().map(|text| {
                json!({"type": "response.output_text.delta", "output_index": 0, "delta": text})
            }));
            all.push(json!({"type": "response.output_item.done", "output_index": 0,
                "item": {"type": "message", "content": [{"type": "output_text", "text": text.concat()}]}}));
            let call = |arguments: &str| json!({"type": "function_call", "call_id": "c", "name": "t", "arguments": arguments});
            all.push(
                json!({"type": "response.output_item.added", "output_index": 1, "item": call("")}),
            );
            all.extend(arguments.iter().map(|json| {
                json!({"type": "response.function_call_arguments.delta", "output_index": 1, "delta": json})
            }));
            all.push(
                json!({"type": "response.output_item.done", "output_index": 1,
                "item": call(&arguments.concat())}),
            );
            all.push(json!({"type": "response.completed",
                "response": {"status": "completed", "output": []}}));
        }
        Provider::OpenAiChat => {
            let delta = |delta: Value| json!({"choices": [{"index": 0, "delta": delta}]});
            all.extend(text.iter().map(|text| delta(json!({"content": text}))));
            all.push(delta(
                json!({"tool_calls": [{"index": 0, "id": "c", "type": "function",
                "function": {"name": "t", "arguments": ""}}]}),
            ));
            all.extend(arguments.iter().map(|json| {
                delta(json!({"tool_calls": [{"index": 0, "function": {"arguments": json}}]}))
            }));
            all.push(
                json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}),
            );
        }
        _ => {
            let candidate = |part: Value| json!({"candidates": [{"content": {"parts": [part]}}]});
            all.extend(text.iter().map(|text| candidate(json!({"text": text}))));
            let args: Value = serde_json::from_str(&arguments.concat()).unwrap();
            all.push(candidate(
                json!({"functionCall": {"id": "c", "name": "t", "args": args}}),
            ));
            all.push(json!({"candidates": [{"finishReason": "STOP"}]}));
        }
    }
    all.iter().map(event).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// The response does not depend on how it is cut into pieces.
    #[test]
    fn h6_chunk_boundaries_do_not_change_a_stream(
        text in ".{0,40}",
        member in ".{0,40}",
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
    ) {
        let arguments = json!({"member": member, "n": [1, 2.5, null]}).to_string();
        for api in Provider::ALL.map(Provider::api) {
            let provider = api.provider();
            let whole = stream_of(provider, &[&text], &[&arguments]);
            let cut = stream_of(provider, &pieces(&text, &cuts), &pieces(&arguments, &cuts));
            let (expected, _) = read_stream(api, &whole).unwrap();
            let (response, deltas) = read_stream(api, &cut).unwrap();
            prop_assert_eq!(&response, &expected);

            let (joined_text, calls) = joined(&deltas);
            prop_assert_eq!(&joined_text, &text);
            prop_assert_eq!(assistant_text(provider, &response.body).unwrap(), text.clone());
            prop_assert_eq!(calls.len(), 1);
            let arguments_read: Value = serde_json::from_str(&calls[0].2).unwrap();
            let call = &parse_tool_calls(provider, &response.body).unwrap()[0];
            prop_assert_eq!(arguments_read, call.arguments_object());
        }
    }

    /// Any input is either read or rejected.
    #[test]
    fn h6_no_input_panics(
        kind in prop::sample::select(vec!["message_start", "content_block_start",
            "content_block_delta", "content_block_stop", "message_delta", "message_stop", "error",
            "response.output_item.added", "response.output_item.done", "response.completed",
            "response.function_call_arguments.delta", "response.output_text.delta"]),
        values in prop::collection::vec(json_value(), 1..4),
        bytes in prop::collection::vec(any::<u8>(), 0..64),
        status in any::<u16>(),
    ) {
        for api in Provider::ALL.map(Provider::api) {
            let mut stream = api.stream();
            let mut deltas = Vec::new();
            for value in &values {
                let mut typed = value.clone();
                if let Some(members) = typed.as_object_mut() {
                    members.insert("type".to_owned(), json!(kind));
                }
                let _ = stream.push(&event(value), &mut deltas);
                let _ = stream.push(&event(&typed), &mut deltas);
                let _ = stream.push(&event(&json!({"candidates": [{"content": value}]})), &mut deltas);
                let _ = api.parse_response(value.clone());
                let _ = api.conversation(std::slice::from_ref(value));
                let _ = api.failure(status, value.to_string().as_bytes());
            }
            let _ = stream.push(&event(&String::from_utf8_lossy(&bytes)), &mut deltas);
            let _ = stream.finish();
            let _ = api.failure(status, &bytes);
        }
    }

    /// A real stream with one replaced value is either read or rejected.
    #[test]
    fn h6_no_change_of_a_real_stream_panics(
        which in any::<prop::sample::Index>(),
        position in any::<prop::sample::Index>(),
        value in json_value(),
    ) {
        for api in Provider::ALL.map(Provider::api) {
            for case in cases(api.provider()) {
                let text = fs::read_to_string(case.join("stream.sse")).unwrap();
                let mut all = events(&text);
                let at = which.index(all.len());
                if all[at].data == "[DONE]" {
                    continue;
                }
                all[at].data = changed(&all[at].data, &position, &value);
                let _ = read_stream(api, &all);
                let body = json_of(&case.join("response.json")).to_string();
                let body = changed(&body, &position, &value);
                let _ = api.parse_response(serde_json::from_str(&body).unwrap());
            }
        }
    }
}

fn changed(data: &str, position: &prop::sample::Index, value: &Value) -> String {
    let mut data: Value = serde_json::from_str(data).unwrap();
    let mut all = Vec::new();
    pointers(&data, "", &mut all);
    let pointer = &all[position.index(all.len())];
    *data.pointer_mut(pointer).unwrap() = value.clone();
    data.to_string()
}
