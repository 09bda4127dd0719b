//! The providers' APIs: pure functions between a [`ModelTurn`] and HTTP bodies, one file per provider.

mod anthropic;
mod ending;
mod event;
mod failure;
#[cfg(test)]
mod golden_tests;
mod google;
mod message;
mod openai_chat;
mod openai_responses;
mod redaction;
mod request;
#[cfg(test)]
mod shape_tests;
#[cfg(test)]
mod stream_tests;

use std::sync::Arc;

use http::HeaderMap;
use pillion_core::provider::Provider;
use pillion_sse::SseEvent;
use serde_json::Value;
use url::Url;

use crate::{Delta, ModelError, ModelTurn, ProviderConversation, TurnAnswer};
use failure::ProviderFailure;

/// Returns the dialect of `provider` at this base URL, or `None` if the provider is not supported.
/// `reasoning` says whether the model is a reasoning model, if known.
pub(crate) fn of(
    provider: Provider,
    base_url: &Url,
    reasoning: Option<bool>,
) -> Option<Arc<dyn ProviderDialect>> {
    Some(match provider {
        Provider::OpenAiChat => Arc::new(openai_chat::OpenAiChat::at(base_url)),
        Provider::OpenAiResponses => Arc::new(openai_responses::OpenAiResponses { reasoning }),
        Provider::Anthropic => Arc::new(anthropic::Anthropic),
        Provider::Google => Arc::new(google::Google),
        _ => return None,
    })
}

/// Creates the error for an invalid answer or stream.
pub(crate) fn malformed(provider: Provider, what: &str) -> ModelError {
    failure::malformed(provider, what)
}

/// Writes the requests and reads the answers of one provider's API. Does no I/O.
pub(crate) trait ProviderDialect: Send + Sync {
    /// Returns the provider of this dialect.
    fn provider(&self) -> Provider;

    /// See [`LanguageModel::conversation`](crate::LanguageModel::conversation).
    fn conversation(&self, messages: &[Value]) -> Result<ProviderConversation, ModelError>;

    /// Returns the path of the endpoint for `model`, relative to the base URL, such as
    /// `chat/completions`.
    fn path(&self, model: &str, stream: bool) -> String;

    /// Returns the headers of every request, including the key if there is one; headers with the
    /// key are marked as sensitive.
    fn headers(&self, key: Option<&str>) -> Result<HeaderMap, ModelError>;

    /// Returns additional headers for the request of this turn.
    fn turn_headers(&self, _turn: &ModelTurn<'_>) -> HeaderMap {
        HeaderMap::new()
    }

    /// Returns the request body.
    fn body(&self, model: &str, turn: &ModelTurn<'_>) -> Value;

    /// Reads a complete answer that was not streamed.
    fn answer(&self, body: Value) -> Result<TurnAnswer, ModelError>;

    /// Returns a reader for a streamed answer.
    fn stream(&self) -> Box<dyn AnswerStream>;

    /// Reads an error body.
    fn parse_failure<'a>(&self, body: &'a Value) -> ProviderFailure<'a>;

    /// Returns the error for a response without a 2xx status, from the status and the body. The
    /// caller reads `Retry-After`.
    fn failure(&self, status: u16, body: &[u8]) -> ModelError {
        let body: Value = serde_json::from_slice(body).unwrap_or_default();
        let failure = ProviderFailure {
            status: Some(status),
            ..self.parse_failure(&body)
        };
        failure.into_error(self.provider())
    }
}

/// Assembles a streamed answer.
pub(crate) trait AnswerStream: Send {
    /// Adds the next event and appends its new pieces to `deltas`.
    fn push(&mut self, event: &SseEvent, deltas: &mut Vec<Delta>) -> Result<(), ModelError>;

    /// Returns whether the provider has marked the answer as complete.
    fn is_complete(&self) -> bool;

    /// Returns whether the answer is complete although the connection failed.
    fn is_complete_if_broken(&self) -> bool {
        self.is_complete()
    }

    /// Returns the complete answer after the end of the stream. If the stream ended too early, the
    /// error is [`Malformed`](crate::ModelErrorKind::Malformed).
    fn finish(self: Box<Self>) -> Result<TurnAnswer, ModelError>;
}
