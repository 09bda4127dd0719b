//! What a provider's error comes to: its kind, and a sentence for people.

use std::time::Duration;

use pillion_core::provider::{Provider, ProviderError};

use super::words::harmless;
use crate::{ModelError, ModelErrorKind};

/// The words by which providers say that a conversation is too long, whatever their status and code.
const TOO_LONG: [&str; 8] = [
    "context_length_exceeded",
    "prompt is too long",
    "exceed context limit",
    "context window",
    "maximum context length",
    "exceeds the maximum number of tokens",
    "too many tokens in the prompt",
    "longer than the model's context",
];

/// An error as a provider tells it.
#[derive(Debug, Default)]
pub(crate) struct Failure<'a> {
    /// The HTTP status, where it is that of an answer.
    pub(super) status: Option<u16>,
    /// What the provider's own words for the kind of error come to.
    pub(super) kind: Option<ModelErrorKind>,
    /// What it says.
    pub(super) message: Option<&'a str>,
    /// When to come back, where it says so in its own way.
    pub(super) retry_after: Option<Duration>,
}

impl Failure<'_> {
    /// The error. What a provider says of a key is never passed on: some repeat a part of it.
    pub(super) fn into_error(self, provider: Provider) -> ModelError {
        let kind = self.kind();
        let what = match kind {
            ModelErrorKind::Unauthorized => "does not take the key, or not for this",
            ModelErrorKind::RateLimited => "takes no more for now",
            ModelErrorKind::Exhausted => "has nothing left to spend for us",
            ModelErrorKind::Unavailable | ModelErrorKind::Timeout => "cannot answer now",
            ModelErrorKind::Refused => "refused the request",
            ModelErrorKind::ContextTooLong => "finds the conversation too long",
            ModelErrorKind::Malformed | ModelErrorKind::Cancelled => "reported an error",
        };
        let mut message = format!("The provider '{provider}' {what}");
        if let Some(status) = self.status {
            message.push_str(&format!(" (HTTP {status})"));
        }
        if kind != ModelErrorKind::Unauthorized
            && let Some(said) = self.message.and_then(harmless)
        {
            message.push_str(": ");
            message.push_str(&said);
        }
        ModelError {
            status: self.status,
            retry_after: self.retry_after,
            ..ModelError::new(kind, message)
        }
    }

    fn kind(&self) -> ModelErrorKind {
        let kind = self.kind.or_else(|| self.status.map(of_status));
        let may_be_length = matches!(kind, None | Some(ModelErrorKind::Refused));
        if may_be_length && self.message.is_some_and(says_too_long) {
            return ModelErrorKind::ContextTooLong;
        }
        kind.unwrap_or(ModelErrorKind::Malformed)
    }
}

fn says_too_long(message: &str) -> bool {
    let message = message.to_ascii_lowercase();
    TOO_LONG.iter().any(|words| message.contains(words))
}

/// What a status says by itself.
pub(super) fn of_status(status: u16) -> ModelErrorKind {
    match status {
        401 | 403 => ModelErrorKind::Unauthorized,
        402 => ModelErrorKind::Exhausted,
        429 => ModelErrorKind::RateLimited,
        413 => ModelErrorKind::ContextTooLong,
        408 | 409 | 425 | 500.. => ModelErrorKind::Unavailable,
        400..500 => ModelErrorKind::Refused,
        _ => ModelErrorKind::Malformed,
    }
}

/// An answer, or the end of a stream, that cannot be read.
pub(super) fn malformed(provider: Provider, what: &str) -> ModelError {
    ModelError::new(
        ModelErrorKind::Malformed,
        format!("The answer of the provider '{provider}' cannot be read: {what}"),
    )
}

/// An answer that lacks something that the provider's format has.
pub(super) fn unread(error: &ProviderError) -> ModelError {
    ModelError::new(ModelErrorKind::Malformed, error.to_string())
}
