//! Converts a provider's error to a kind and a message.

use std::time::Duration;

use crate::redaction::redact;
use crate::{ModelError, ModelErrorKind, Provider};

/// The phrases by which providers report a conversation that is too long. The status and code of
/// such errors differ between providers.
const TOO_LONG_PHRASES: [&str; 8] = [
    "context_length_exceeded",
    "prompt is too long",
    "exceed context limit",
    "context window",
    "maximum context length",
    "exceeds the maximum number of tokens",
    "too many tokens in the prompt",
    "longer than the model's context",
];

/// An error as the provider reported it.
#[derive(Debug, Default)]
pub struct ProviderFailure<'a> {
    /// The HTTP status, if the error has one.
    pub(crate) status: Option<u16>,
    /// The kind of failure that the provider's own error code indicates; `None` if the error code
    /// indicates no kind.
    pub(crate) kind: Option<ModelErrorKind>,
    /// The error message of the provider.
    pub(crate) message: Option<&'a str>,
    /// The time to wait before a retry, if the error body contains a time.
    pub(crate) retry_after: Option<Duration>,
}

impl ProviderFailure<'_> {
    /// Converts the failure to an error. The provider's message about an API key is omitted,
    /// because some providers repeat a part of the key.
    pub(crate) fn into_error(self, provider: Provider) -> ModelError {
        let kind = self.kind();
        let outcome = match kind {
            ModelErrorKind::Unauthorized => {
                "rejected the API key, or the key lacks permission for the request"
            }
            ModelErrorKind::RateLimited => "has rate-limited the request",
            ModelErrorKind::Exhausted => "reported that the account's quota or credit is used up",
            ModelErrorKind::Unavailable | ModelErrorKind::Timeout => "is temporarily unavailable",
            ModelErrorKind::Rejected => "rejected the request",
            ModelErrorKind::ContextTooLong => "rejected the conversation as too long",
            ModelErrorKind::Malformed | ModelErrorKind::Cancelled => "reported an error",
        };
        let mut message = format!("The provider '{provider}' {outcome}");
        if let Some(status) = self.status {
            message.push_str(&format!(" (HTTP {status})"));
        }
        if kind != ModelErrorKind::Unauthorized
            && let Some(reason) = self.message.and_then(redact)
        {
            message.push_str(": ");
            message.push_str(&reason);
        }
        ModelError {
            status: self.status,
            retry_after: self.retry_after,
            ..ModelError::new(kind, message)
        }
    }

    fn kind(&self) -> ModelErrorKind {
        let kind = self.kind.or_else(|| self.status.map(kind_for_status));
        let may_be_too_long = matches!(kind, None | Some(ModelErrorKind::Rejected));
        if may_be_too_long && self.message.is_some_and(is_too_long_message) {
            return ModelErrorKind::ContextTooLong;
        }
        kind.unwrap_or(ModelErrorKind::Malformed)
    }
}

fn is_too_long_message(message: &str) -> bool {
    let text = message.to_ascii_lowercase();
    TOO_LONG_PHRASES.iter().any(|phrase| text.contains(phrase))
}

pub(crate) fn kind_for_status(status: u16) -> ModelErrorKind {
    match status {
        401 | 403 => ModelErrorKind::Unauthorized,
        402 => ModelErrorKind::Exhausted,
        429 => ModelErrorKind::RateLimited,
        413 => ModelErrorKind::ContextTooLong,
        408 | 409 | 425 | 500.. => ModelErrorKind::Unavailable,
        400..500 => ModelErrorKind::Rejected,
        _ => ModelErrorKind::Malformed,
    }
}
