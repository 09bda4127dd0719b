//! The documented shapes of answers, and the shapes that compatible servers send, cut at every byte:
//! what arrives is the complete answer or an error.

mod shapes;

use pillion_core::provider::{Provider, assistant_text, parse_tool_calls};
use pillion_sse::SseDecoder;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::golden_tests::dialects;
use super::stream_tests::{event, joined, read_stream};
use super::{ProviderDialect, openai_chat};
use crate::{Delta, Finish, ModelError, ModelErrorKind, TurnAnswer};
use shapes::{Shape, bodies, broken_bodies, broken_streams, streams};

/// What an application reads of an answer.
#[derive(Debug, PartialEq)]
struct Outcome {
    text: String,
    /// The names of the calls, and their arguments.
    calls: Vec<(String, Value)>,
    finish: Finish,
}

impl Outcome {
    fn of(provider: Provider, answer: &TurnAnswer) -> Result<Self, String> {
        let calls = parse_tool_calls(provider, &answer.body).map_err(|error| error.to_string())?;
        let calls = calls.into_iter().map(|call| {
            let arguments = call.arguments_object();
            (call.name, arguments)
        });
        Ok(Self {
            calls: calls.collect(),
            text: assistant_text(provider, &answer.body).map_err(|error| error.to_string())?,
            finish: answer.finish.clone(),
        })
    }

    fn expected(shape: &Shape) -> Self {
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

fn dialect_of(provider: Provider) -> std::sync::Arc<dyn ProviderDialect> {
    let mut dialects = dialects().into_iter();
    dialects
        .find(|dialect| dialect.provider() == provider)
        .unwrap()
}

/// Reads a stream of these bytes, which ends properly.
fn read_bytes(
    dialect: &dyn ProviderDialect,
    bytes: &[u8],
) -> Result<(TurnAnswer, Vec<Delta>), ModelError> {
    let mut decoder = SseDecoder::new(1 << 20);
    let (mut stream, mut deltas) = (dialect.stream(), Vec::new());
    let unreadable = |_| ModelError::new(ModelErrorKind::Malformed, "not an event stream");
    decoder.feed(bytes).map_err(unreadable)?;
    decoder.finish().map_err(unreadable)?;
    while let Some(event) = decoder.next_event() {
        stream.push(&event, &mut deltas)?;
        if stream.is_complete() {
            break;
        }
    }
    Ok((stream.finish()?, deltas))
}

/// Checks that an answer is that of the shape; `part` says how much of it was read.
fn checked_outcome(provider: Provider, shape: &Shape, answer: &TurnAnswer, part: &str) -> Outcome {
    let outcome = Outcome::of(provider, answer).unwrap();
    let name = shape.name;
    assert_eq!(
        outcome,
        Outcome::expected(shape),
        "{provider} {name}, {part}"
    );
    outcome
}

#[test]
fn h6_every_stream_is_read() {
    for (provider, shape) in streams() {
        let dialect = dialect_of(provider);
        let (answer, deltas) = read_bytes(&*dialect, shape.bytes().as_bytes())
            .unwrap_or_else(|error| panic!("{provider} {}: {error}", shape.name));
        let outcome = checked_outcome(provider, &shape, &answer, "whole");
        assert_eq!(joined(&deltas).0, outcome.text, "{provider} {}", shape.name);
    }
}

#[test]
fn h6_a_stream_that_is_cut_anywhere_is_the_answer_or_an_error() {
    for (provider, shape) in streams() {
        let dialect = dialect_of(provider);
        let text = shape.bytes();
        for end in 0..text.len() {
            let Ok((answer, _)) = read_bytes(&*dialect, &text.as_bytes()[..end]) else {
                continue;
            };
            checked_outcome(provider, &shape, &answer, &format!("cut at {end}"));
        }
    }
}

#[test]
fn h6_a_stream_without_its_last_events_is_an_error() {
    for (provider, shape) in streams() {
        let dialect = dialect_of(provider);
        for count in 0..shape.events.len() {
            let events: Vec<_> = shape.events[..count].iter().map(event).collect();
            if let Ok((answer, _)) = read_stream(&*dialect, &events) {
                checked_outcome(provider, &shape, &answer, &format!("{count} events"));
            }
        }
    }
}

#[test]
fn h6_streams_without_an_end_are_errors() {
    for (provider, name, events) in broken_streams() {
        let events: Vec<_> = events.iter().map(event).collect();
        let error = read_stream(&*dialect_of(provider), &events).unwrap_err();
        assert_eq!(error.kind, ModelErrorKind::Malformed, "{provider} {name}");
    }
}

#[test]
fn h6_every_body_is_read_and_no_part_of_a_body() {
    for (provider, shape) in bodies() {
        let dialect = dialect_of(provider);
        let text = shape.events[0].to_string();
        let answer = dialect.answer(serde_json::from_str(&text).unwrap());
        let answer = answer.unwrap_or_else(|error| panic!("{provider} {}: {error}", shape.name));
        checked_outcome(provider, &shape, &answer, "whole");
        for end in 0..text.len() {
            let part = serde_json::from_slice::<Value>(&text.as_bytes()[..end]);
            assert!(part.is_err(), "{provider} {} at {end}", shape.name);
        }
    }
}

#[test]
fn h6_incomplete_bodies_are_errors() {
    for (provider, name, body) in broken_bodies() {
        let answer = dialect_of(provider).answer(body);
        let outcome = answer.map(|answer| Outcome::of(provider, &answer));
        assert!(
            !matches!(outcome, Ok(Ok(_))),
            "{provider} {name}: {outcome:?}"
        );
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
        let mut stream = dialect_of(provider).stream();
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
        let dialect = openai_chat::OpenAiChat::at(&"http://127.0.0.1/v1".parse().unwrap());
        let (answer, deltas) = read_stream(&dialect, &events).unwrap();
        let expected: String = pieces.iter().map(|(text, _)| text.as_str()).collect();
        prop_assert_eq!(&assistant_text(Provider::OpenAiChat, &answer.body).unwrap(), &expected);
        prop_assert_eq!(&joined(&deltas).0, &expected);
    }
}
