//! How each provider is spoken to: pure functions between a [`Turn`] and the wire, a file a provider.

mod anthropic;
mod event;
mod failure;
#[cfg(test)]
mod golden_tests;
mod google;
mod message;
mod openai_chat;
mod openai_responses;
mod request;
#[cfg(test)]
mod stream_tests;
mod words;

use std::sync::Arc;

use http::HeaderMap;
use pillion_core::mcp::SseEvent;
use pillion_core::provider::Provider;
use serde_json::Value;
use url::Url;

use crate::{Answer, Conversation, Delta, ModelError, Turn};
use failure::Failure;

/// How `provider` is spoken to at this base URL, of a model that thinks before it answers, or does not, if
/// that is known; none where that is not known here.
pub(crate) fn of(
    provider: Provider,
    base_url: &Url,
    reasoning: Option<bool>,
) -> Option<Arc<dyn Dialect>> {
    Some(match provider {
        Provider::OpenAiChat => Arc::new(openai_chat::OpenAiChat::at(base_url)),
        Provider::OpenAiResponses => Arc::new(openai_responses::OpenAiResponses { reasoning }),
        Provider::Anthropic => Arc::new(anthropic::Anthropic),
        Provider::Google => Arc::new(google::Google),
        _ => return None,
    })
}

/// An answer, or the end of a stream, that cannot be read.
pub(crate) fn malformed(provider: Provider, what: &str) -> ModelError {
    failure::malformed(provider, what)
}

/// One provider's way to write requests and to read answers. Does no I/O.
pub(crate) trait Dialect: Send + Sync {
    /// Whose it is.
    fn provider(&self) -> Provider;

    /// See [`LanguageModel::conversation`](crate::LanguageModel::conversation).
    fn conversation(&self, messages: &[Value]) -> Result<Conversation, ModelError>;

    /// The path of the endpoint below the base URL for `model`, such as `chat/completions`.
    fn path(&self, model: &str, stream: bool) -> String;

    /// What the request needs in headers, with the key where there is one; those that carry it
    /// are marked sensitive.
    fn headers(&self, key: Option<&str>) -> Result<HeaderMap, ModelError>;

    /// What only the request of this turn needs beside them.
    fn headers_of(&self, _turn: &Turn<'_>) -> HeaderMap {
        HeaderMap::new()
    }

    /// The request's body.
    fn body(&self, model: &str, turn: &Turn<'_>) -> Value;

    /// Reads a whole answer that was not streamed.
    fn answer(&self, body: Value) -> Result<Answer, ModelError>;

    /// A reader for one streamed answer.
    fn stream(&self) -> Box<dyn AnswerStream>;

    /// What a body says of itself that is an error.
    fn reported<'a>(&self, body: &'a Value) -> Failure<'a>;

    /// What an answer of a status other than 2xx says: kind and words, from status and body.
    /// `Retry-After` is read by the caller.
    fn failure(&self, status: u16, body: &[u8]) -> ModelError {
        let body: Value = serde_json::from_slice(body).unwrap_or_default();
        let failure = Failure {
            status: Some(status),
            ..self.reported(&body)
        };
        failure.into_error(self.provider())
    }
}

/// Puts a streamed answer together.
pub(crate) trait AnswerStream: Send {
    /// Takes the next event and gives what is new in it.
    fn push(&mut self, event: &SseEvent, deltas: &mut Vec<Delta>) -> Result<(), ModelError>;

    /// Whether the provider has said that the answer is complete.
    fn is_complete(&self) -> bool;

    /// The whole answer, once the stream has ended. A stream that broke off before it was complete is
    /// [`Malformed`](crate::ModelErrorKind::Malformed).
    fn finish(self: Box<Self>) -> Result<Answer, ModelError>;
}
