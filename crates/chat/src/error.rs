use std::time::Duration;

use pillion_core::tool::{ErrorCode, ToolFailure};

/// The kind of failure of a request to a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ModelErrorKind {
    /// The API key is missing, or the provider rejected it.
    Unauthorized,
    /// Too many requests or tokens at the moment.
    RateLimited,
    /// The account at the provider has no quota or credit left; retrying does not help.
    Exhausted,
    /// The provider is unreachable or reports that it is unavailable.
    Unavailable,
    /// The deadline passed.
    Timeout,
    /// The provider rejected the request as invalid.
    Refused,
    /// The conversation is longer than the model's context.
    ContextTooLong,
    /// The response cannot be read: truncated, in an unexpected format, too long, or an error with
    /// status 200.
    Malformed,
    /// The caller cancelled the request.
    Cancelled,
}

/// Why a model gave no answer. The message contains no API key, and no part of a URL except the
/// host.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ModelError {
    /// The kind of failure.
    pub kind: ModelErrorKind,
    /// A human-readable message, with the provider's own message if that is short and safe to show.
    pub message: String,
    /// The HTTP status of the response, if there was one.
    pub status: Option<u16>,
    /// When to retry, if the provider said so.
    pub retry_after: Option<Duration>,
    /// Whether the provider may have called tools natively before the failure; then repeating the
    /// request would call the tools again. Set by a [`LanguageModel`](crate::LanguageModel) whose
    /// provider can do so.
    pub may_have_acted: bool,
    /// Whether the provider may bill the request: the provider received the request and did not
    /// reject it.
    pub may_have_cost: bool,
}

impl ModelError {
    /// Creates an error without an HTTP status. A response that came too late or could not be read
    /// may have been billed.
    #[must_use]
    pub fn new(kind: ModelErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            status: None,
            retry_after: None,
            may_have_acted: false,
            may_have_cost: matches!(kind, ModelErrorKind::Malformed | ModelErrorKind::Timeout),
        }
    }

    /// Returns the error code for API responses.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        match self.kind {
            ModelErrorKind::Unauthorized
            | ModelErrorKind::Unavailable
            | ModelErrorKind::Malformed => ErrorCode::Unavailable,
            ModelErrorKind::RateLimited | ModelErrorKind::Exhausted => ErrorCode::RateLimited,
            ModelErrorKind::Timeout => ErrorCode::Timeout,
            ModelErrorKind::Refused | ModelErrorKind::ContextTooLong => ErrorCode::InvalidInput,
            ModelErrorKind::Cancelled => ErrorCode::Cancelled,
        }
    }
}

/// Why a chat stopped. The state keeps everything up to the failure, and another run continues from
/// there.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ChatError {
    /// The model gave no answer.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The next request could exceed the chat's token limit.
    #[error(
        "the chat's limit is {limit} tokens; {spent} are spent, and the next request needs more \
        than the rest"
    )]
    Spent {
        /// The chat's token limit.
        limit: u64,
        /// The number of tokens spent so far.
        spent: u64,
    },
    /// The listener could not save the state.
    #[error("the chat could not be saved: {0}")]
    NotSaved(#[source] ToolFailure),
}

impl ChatError {
    /// See [`ModelError::may_have_acted`].
    #[must_use]
    pub fn may_have_acted(&self) -> bool {
        matches!(self, Self::Model(error) if error.may_have_acted)
    }

    /// Returns the error code for API responses.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Model(error) => error.code(),
            Self::Spent { .. } => ErrorCode::RateLimited,
            Self::NotSaved(failure) => failure.code,
        }
    }
}
