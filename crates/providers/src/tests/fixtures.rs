//! Helpers that the tests of this crate share.

use std::time::Instant;

use pillion_sse::{SseDecoder, SseEvent};
use serde_json::Value;

use crate::{
    Delta, Endpoint, ModelError, ModelTurn, Provider, ProviderApi, ProviderConversation,
    TurnOptions, TurnResponse,
};

/// Returns the cases in a file of `tests/corpus`, with their providers.
pub(crate) fn cases(text: &str) -> Vec<(Provider, Value)> {
    let cases = text.lines().map(|line| {
        let case: Value = serde_json::from_str(line).unwrap();
        (case["provider"].as_str().unwrap().parse().unwrap(), case)
    });
    cases.collect()
}

/// Parses the events of a stream.
pub(crate) fn events(text: &str) -> Vec<SseEvent> {
    let mut decoder = SseDecoder::new(1 << 20);
    decoder.feed(text.as_bytes()).unwrap();
    decoder.finish().unwrap();
    std::iter::from_fn(|| decoder.next_event()).collect()
}

pub(crate) fn event(data: &(impl ToString + ?Sized)) -> SseEvent {
    SseEvent {
        event: "message".into(),
        data: data.to_string(),
        id: None,
    }
}

/// Returns the response of a stream and its deltas.
pub(crate) fn read_stream(
    api: &dyn ProviderApi,
    events: &[SseEvent],
) -> Result<(TurnResponse, Vec<Delta>), ModelError> {
    let mut stream = api.stream();
    let mut deltas = Vec::new();
    for event in events {
        stream.push(event, &mut deltas)?;
    }
    Ok((stream.finish()?, deltas))
}

/// Joins the text of all deltas and the ID, name and arguments of each call.
pub(crate) fn joined(deltas: &[Delta]) -> (String, Vec<(String, String, String)>) {
    let mut text = String::new();
    let mut calls: Vec<(String, String, String)> = Vec::new();
    for delta in deltas {
        match delta {
            Delta::Text(piece) => text.push_str(piece),
            Delta::Thought(_) | Delta::Native(_) => {}
            Delta::ToolCall {
                index,
                id,
                name,
                arguments,
            } => {
                if let (Some(id), Some(name)) = (id, name) {
                    assert_eq!(*index, calls.len());
                    calls.push((id.clone(), name.clone(), String::new()));
                }
                calls[*index].2.push_str(arguments);
            }
        }
    }
    (text, calls)
}

/// Returns the request for a turn without messages and tools.
pub(crate) fn request_body(
    api: &dyn ProviderApi,
    model: &str,
    reasoning: Option<bool>,
    options: &TurnOptions,
) -> Value {
    let conversation = ProviderConversation::default();
    let base_url = api.base_url().parse().unwrap();
    let endpoint = Endpoint {
        model,
        base_url: &base_url,
        reasoning,
    };
    api.body(&endpoint, &turn(&conversation, options))
}

/// Returns a turn without tools.
pub(crate) fn turn<'a>(
    conversation: &'a ProviderConversation,
    options: &'a TurnOptions,
) -> ModelTurn<'a> {
    ModelTurn {
        conversation,
        tools: &[],
        options,
        stream: false,
        deadline: Instant::now(),
    }
}
