use std::time::Duration;

use pillion_core::tool::ErrorCode;

use crate::Provider;
use crate::node::JsonFault;

/// The reason why a response body cannot be parsed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProviderError {
    /// The body is an error of the provider.
    #[error("The provider '{provider}' reported an error: {message}")]
    Reported {
        /// The provider whose format the response has.
        provider: Provider,
        /// The provider's error message.
        message: String,
    },
    /// A part of the body is missing or has the wrong type.
    #[error("Malformed response of the provider '{provider}': {fault}")]
    Malformed {
        /// The provider whose format the response has.
        provider: Provider,
        /// The part that is missing or has the wrong type.
        fault: JsonFault,
    },
}

/// The kind of failure of a request to a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ModelErrorKind {
    /// The request has no API key, or the provider rejected the API key.
    Unauthorized,
    /// The account exceeded the provider's rate limit for requests or tokens.
    RateLimited,
    /// The account at the provider has no quota or credit left; retrying does not help.
    Exhausted,
    /// The provider is unreachable or reports that it is unavailable.
    Unavailable,
    /// The response did not arrive before the deadline.
    Timeout,
    /// The provider rejected the request as invalid.
    Rejected,
    /// The conversation is longer than the model's context.
    ContextTooLong,
    /// The response cannot be read: truncated, in an unexpected format, too long, or an error with
    /// status 200.
    Malformed,
    /// The caller cancelled the request.
    Cancelled,
}

/// The reason why a model returned no response. The message contains no API key, and no part of a
/// URL except the host.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ModelError {
    /// The kind of failure that prevented the response.
    pub kind: ModelErrorKind,
    /// A human-readable message, with the provider's own message if the provider's message is short
    /// and safe to show.
    pub message: String,
    /// The HTTP status of the response, if there was one.
    pub status: Option<u16>,
    /// The time to wait before a retry, if the provider reported a time.
    pub retry_after: Option<Duration>,
    /// Whether the provider may have run tools itself before the failure, so that repeating the
    /// request could run the tools again. Always `false` if the request lets the provider call no
    /// MCP server.
    pub may_have_acted: bool,
    /// Whether the provider may bill the request, because the provider received the request and did
    /// not reject it.
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
            ModelErrorKind::Rejected | ModelErrorKind::ContextTooLong => ErrorCode::InvalidInput,
            ModelErrorKind::Cancelled => ErrorCode::Cancelled,
        }
    }
}

impl ProviderError {
    pub(crate) fn malformed(provider: Provider, fault: JsonFault) -> Self {
        Self::Malformed { provider, fault }
    }
}

/// Converts the error of a response whose body cannot be read. The model may have processed the
/// request.
impl From<ProviderError> for ModelError {
    fn from(error: ProviderError) -> Self {
        Self::new(ModelErrorKind::Malformed, error.to_string())
    }
}
