//! Reads the documented shapes of responses, and the shapes that compatible servers send, cut at
//! every byte: the outcome is the complete response or an error.

mod shapes;

use pillion_sse::SseDecoder;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::openai_chat::OpenAiChat;
use crate::tests::fixtures::{cases, event, joined, read_stream};
use crate::{
    Delta, Finish, ModelError, ModelErrorKind, Provider, ProviderApi, TurnResponse, Usage,
    assistant_text, parse_tool_calls,
};
use shapes::{Shape, broken_streams, streams};

/// What an application reads of a response.
#[derive(Debug, PartialEq)]
struct Outcome {
    text: String,
    /// The names of the calls, and their arguments.
    calls: Vec<(String, Value)>,
    finish: Finish,
}

impl Outcome {
    fn new(provider: Provider, response: &TurnResponse) -> Result<Self, String> {
        let parsed =
            parse_tool_calls(provider, &response.body).map_err(|error| error.to_string())?;
        let calls = parsed.into_iter().map(|call| {
            let arguments = call.arguments_object();
            (call.name, arguments)
        });
        Ok(Self {
            calls: calls.collect(),
            text: assistant_text(provider, &response.body).map_err(|error| error.to_string())?,
            finish: response.finish.clone(),
        })
    }

    fn from_case(case: &Value) -> Self {
        Self {
            text: case["text"].as_str().unwrap().to_owned(),
            calls: serde_json::from_value(case["calls"].clone()).unwrap(),
            finish: serde_json::from_value(case["finish"].clone()).unwrap(),
        }
    }

    fn from_shape(shape: &Shape) -> Self {
        let calls = shape.calls.iter();
        Self {
            text: shape.text.to_owned(),
            calls: calls
                .map(|(name, arguments)| ((*name).to_owned(), arguments.clone()))
                .collect(),
            finish: shape.finish.clone(),
        }
    }
}

/// Reads a stream that arrives in these pieces and does not break off.
fn read_pieces<'a>(
    api: &dyn ProviderApi,
    pieces: impl IntoIterator<Item = &'a [u8]>,
) -> Result<(TurnResponse, Vec<Delta>), ModelError> {
    let mut decoder = SseDecoder::new(1 << 20);
    let (mut stream, mut deltas) = (api.stream(), Vec::new());
    let unreadable = |_| ModelError::new(ModelErrorKind::Malformed, "not an event stream");
    for piece in pieces.into_iter().map(Some).chain([None]) {
        match piece {
            Some(piece) => decoder.feed(piece).map_err(unreadable)?,
            None => decoder.finish().map_err(unreadable)?,
        }
        while let Some(event) = decoder.next_event() {
            stream.push(&event, &mut deltas)?;
            if stream.is_complete() {
                return Ok((stream.finish()?, deltas));
            }
        }
    }
    Ok((stream.finish()?, deltas))
}

/// Checks that a response is the response of the shape; `part` describes how much of the stream was
/// read.
fn checked_outcome(
    provider: Provider,
    shape: &Shape,
    response: &TurnResponse,
    part: &str,
) -> Outcome {
    let outcome = Outcome::new(provider, response).unwrap();
    let name = shape.name;
    assert_eq!(
        outcome,
        Outcome::from_shape(shape),
        "{provider} {name}, {part}"
    );
    outcome
}

#[test]
fn h6_every_stream_is_read() {
    for (provider, shape) in streams() {
        let api = provider.api();
        let (response, deltas) = read_pieces(api, [shape.bytes().as_bytes()])
            .unwrap_or_else(|error| panic!("{provider} {}: {error}", shape.name));
        let outcome = checked_outcome(provider, &shape, &response, "whole");
        assert_eq!(joined(&deltas).0, outcome.text, "{provider} {}", shape.name);
    }
}

#[test]
fn h6_a_stream_that_is_cut_anywhere_is_the_answer_or_an_error() {
    for (provider, shape) in streams() {
        let api = provider.api();
        let text = shape.bytes();
        for end in 0..text.len() {
            let Ok((response, _)) = read_pieces(api, [&text.as_bytes()[..end]]) else {
                continue;
            };
            checked_outcome(provider, &shape, &response, &format!("cut at {end}"));
        }
    }
}

#[test]
fn h6_a_stream_without_its_last_events_is_an_error() {
    for (provider, shape) in streams() {
        let api = provider.api();
        for count in 0..shape.events.len() {
            let events: Vec<_> = shape.events[..count].iter().map(event).collect();
            if let Ok((response, _)) = read_stream(api, &events) {
                checked_outcome(provider, &shape, &response, &format!("{count} events"));
            }
        }
    }
}

#[test]
fn h6_streams_without_an_end_are_errors() {
    for (provider, name, events) in broken_streams() {
        let events: Vec<_> = events.iter().map(event).collect();
        let error = read_stream(provider.api(), &events).unwrap_err();
        assert_eq!(error.kind, ModelErrorKind::Malformed, "{provider} {name}");
    }
}

#[test]
fn h6_every_body_is_read_and_no_part_of_a_body() {
    for (provider, case) in cases(include_str!("../../tests/corpus/bodies.jsonl")) {
        let read = provider.api().parse_response(case["body"].clone());
        let response = read.unwrap_or_else(|error| panic!("{case}: {error}"));
        let outcome = Outcome::new(provider, &response).unwrap();
        assert_eq!(outcome, Outcome::from_case(&case), "{case}");
        assert_eq!(response.usage, Usage::default(), "{case}");
        let text = case["body"].to_string();
        for end in 0..text.len() {
            let part = serde_json::from_slice::<Value>(&text.as_bytes()[..end]);
            assert!(part.is_err(), "{case} at {end}");
        }
    }
}

#[test]
fn h6_incomplete_bodies_are_errors() {
    for (provider, case) in cases(include_str!("../../tests/corpus/broken_bodies.jsonl")) {
        match provider.api().parse_response(case["body"].clone()) {
            Ok(response) => assert!(Outcome::new(provider, &response).is_err(), "{case}"),
            Err(error) => {
                let kind = case["kind"].as_str().unwrap_or("Malformed");
                assert_eq!(format!("{:?}", error.kind), kind, "{case}");
            }
        }
    }
}

/// After a broken connection, the reason counts only if the model has sent the reason once.
#[test]
fn h6_a_reason_in_every_chunk_does_not_complete_a_broken_stream() {
    let chunk = |text: &str| json!({"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": "stop"}]});
    let part = |text: &str| json!({"candidates": [{"content": {"parts": [{"text": text}]}, "finishReason": "STOP"}]});
    for (provider, events) in [
        (Provider::OpenAiChat, [chunk("You must "), chunk("never ")]),
        (Provider::Google, [part("You must "), part("never ")]),
    ] {
        let mut stream = provider.api().stream();
        stream.push(&event(&events[0]), &mut Vec::new()).unwrap();
        assert!(stream.is_complete_if_broken(), "{provider}");
        stream.push(&event(&events[1]), &mut Vec::new()).unwrap();
        assert!(!stream.is_complete_if_broken(), "{provider}");
        stream.finish().unwrap();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Text and lists of parts add up to the same text, in any order and any pieces.
    #[test]
    fn h6_content_of_any_form_adds_up(pieces in prop::collection::vec(("[a-c ]{0,3}", 0..4), 1..8)) {
        let part = |text: &str| json!({"type": "text", "text": text});
        let delta = |content: Value| event(&json!({"choices": [{"index": 0, "delta": {"content": content}}]}));
        let mut events = Vec::new();
        for (text, form) in &pieces {
            let thinking = json!({"type": "thinking", "thinking": [part("Hm")]});
            events.push(delta(match form {
                0 => json!(text),
                1 => json!([part(text)]),
                2 => json!([thinking, part(text), part("")]),
                _ => json!([part(text), thinking]),
            }));
            events.push(delta(Value::Null));
        }
        events.push(event("[DONE]"));
        let (response, deltas) = read_stream(&OpenAiChat, &events).unwrap();
        let expected: String = pieces.iter().map(|(text, _)| text.as_str()).collect();
        prop_assert_eq!(&assistant_text(Provider::OpenAiChat, &response.body).unwrap(), &expected);
        prop_assert_eq!(&joined(&deltas).0, &expected);
    }

    /// The response does not depend on how its bytes are cut into pieces.
    #[test]
    fn h6_chunk_boundaries_do_not_change_an_answer(cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12)) {
        for (provider, shape) in streams() {
            let text = shape.bytes();
            let mut piece_ends: Vec<_> = cuts.iter().map(|cut| cut.index(text.len())).collect();
            piece_ends.extend([0, text.len()]);
            piece_ends.sort_unstable();
            let pieces = piece_ends.windows(2).map(|range| &text.as_bytes()[range[0]..range[1]]);
            let whole = read_pieces(provider.api(), [text.as_bytes()]).unwrap();
            prop_assert_eq!(read_pieces(provider.api(), pieces).unwrap(), whole, "{}", shape.name);
        }
    }
}
