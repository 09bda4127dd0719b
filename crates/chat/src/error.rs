use std::time::Duration;

use pillion_core::tool::ErrorCode;

/// What went wrong between us and a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ModelErrorKind {
    /// No key, or one that the provider does not take.
    Unauthorized,
    /// Too many requests or tokens, or nothing left to spend.
    RateLimited,
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
}

impl ModelError {
    /// An error without status.
    #[must_use]
    pub fn new(kind: ModelErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            status: None,
            retry_after: None,
        }
    }

    /// The code that surfaces give for it (requirement C5).
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        match self.kind {
            ModelErrorKind::Unauthorized
            | ModelErrorKind::Unavailable
            | ModelErrorKind::Malformed => ErrorCode::Unavailable,
            ModelErrorKind::RateLimited => ErrorCode::RateLimited,
            ModelErrorKind::Timeout => ErrorCode::Timeout,
            ModelErrorKind::Refused | ModelErrorKind::ContextTooLong => ErrorCode::InvalidInput,
            ModelErrorKind::Cancelled => ErrorCode::Cancelled,
        }
    }
}
