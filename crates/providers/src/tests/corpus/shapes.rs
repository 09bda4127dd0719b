//! The shapes of streams, taken from the providers' documentation (see `tests/golden/README.md`)
//! and from what compatible servers are known to send.

mod anthropic;
mod broken_streams;
mod google;
mod openai_chat;
mod openai_responses;

use serde_json::Value;

use crate::Finish;
use crate::Provider::{self, Anthropic, Google, OpenAiChat as Chat, OpenAiResponses as Responses};
pub(super) use broken_streams::broken_streams;

/// A streamed response, and what an application reads of the response.
pub(super) struct Shape {
    pub(super) name: &'static str,
    pub(super) events: Vec<Value>,
    pub(super) text: &'static str,
    pub(super) calls: Vec<(&'static str, Value)>,
    pub(super) finish: Finish,
}

impl Shape {
    fn text(name: &'static str, events: Vec<Value>, text: &'static str, finish: Finish) -> Self {
        Self {
            name,
            events,
            text,
            calls: Vec::new(),
            finish,
        }
    }

    fn call(name: &'static str, events: Vec<Value>, arguments: Value, finish: Finish) -> Self {
        Self {
            name,
            events,
            text: "",
            calls: vec![("roll", arguments)],
            finish,
        }
    }

    /// Returns the event stream.
    pub(super) fn bytes(&self) -> String {
        let data = self.events.iter().map(|event| match event {
            Value::String(text) => format!("data: {text}\n\n"),
            event => match event["type"].as_str() {
                Some(name) => format!("event: {name}\ndata: {event}\n\n"),
                None => format!(": ping\n\ndata: {event}\r\n\r\n"),
            },
        });
        data.collect()
    }
}

pub(super) fn streams() -> Vec<(Provider, Shape)> {
    let of =
        |provider: Provider, shapes: Vec<Shape>| shapes.into_iter().map(move |it| (provider, it));
    of(Chat, openai_chat::streams())
        .chain(of(Responses, openai_responses::streams()))
        .chain(of(Anthropic, anthropic::streams()))
        .chain(of(Google, google::streams()))
        .collect()
}
