use std::time::Duration;

use pillion_core::tool::{ErrorCode, ToolFailure};

/// What went wrong between us and a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ModelErrorKind {
    /// No key, or one that the provider does not take.
    Unauthorized,
    /// Too many requests or tokens for now.
    RateLimited,
    /// Nothing is left to spend at the provider: to wait does not help.
    Exhausted,
    /// The provider cannot be reached, or says that it cannot answer now.
    Unavailable,
    /// The deadline passed.
    Timeout,
    /// The provider refused the request as it stands.
    Refused,
    /// The conversation is longer than the model reads.
    ContextTooLong,
    /// What came back cannot be read: truncated, of another form, too long, or an error in an
    /// answer of status 200.
    Malformed,
    /// The caller ended it.
    Cancelled,
}

/// Why a model gave no answer. The text holds no key, and of a URL no more than its host.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ModelError {
    /// What kind of failure it is.
    pub kind: ModelErrorKind,
    /// A sentence for people, with what the provider said, if that is short and harmless.
    pub message: String,
    /// The HTTP status, where there was one.
    pub status: Option<u16>,
    /// When to come back, where the provider said it.
    pub retry_after: Option<Duration>,
    /// Whether the provider may have called tools by itself before it failed: the same request would
    /// have it call them again. A [`LanguageModel`](crate::LanguageModel) that lets its provider do that
    /// says so.
    pub may_have_acted: bool,
    /// Whether the provider may want to be paid for it: it had the request, and did not refuse it.
    pub may_have_cost: bool,
}

impl ModelError {
    /// Makes an error without an HTTP status. A response that came too late or could not be read
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

    /// The code that surfaces give for it (requirement C5).
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

/// Why a chat stopped. The state has all that was said and done up to there, and a further run
/// goes on from there.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ChatError {
    /// The model gave no answer.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The next request could spend more tokens than the chat may.
    #[error(
        "the chat may spend {limit} tokens; {spent} are spent, and the next request needs more than are left"
    )]
    Spent {
        /// What it may spend.
        limit: u64,
        /// What is spent.
        spent: u64,
    },
    /// The listener could not keep the state.
    #[error("the chat could not be kept: {0}")]
    NotKept(#[source] ToolFailure),
}

impl ChatError {
    /// See [`ModelError::may_have_acted`].
    #[must_use]
    pub fn may_have_acted(&self) -> bool {
        matches!(self, Self::Model(error) if error.may_have_acted)
    }

    /// The code that surfaces give for it (requirement C5).
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Model(error) => error.code(),
            Self::Spent { .. } => ErrorCode::RateLimited,
            Self::NotKept(failure) => failure.code,
        }
    }
}
