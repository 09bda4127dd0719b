use pillion_core::tool::{ErrorCode, ToolFailure};
use pillion_providers::ModelError;

/// Why a chat stopped. The chat's state keeps everything up to the failure, and another run
/// continues from this state.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ChatError {
    /// The request to the model failed.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The next request could exceed the chat's token limit.
    #[error(
        "the chat's limit of {limit} tokens does not allow the next request: the chat has already \
        spent {spent_tokens} tokens"
    )]
    TokenLimit {
        /// The token limit of the chat.
        limit: u64,
        /// The number of tokens that the chat has spent.
        spent_tokens: u64,
    },
    /// The listener could not save the state.
    #[error("the chat could not be saved: {0}")]
    NotSaved(#[source] ToolFailure),
}

impl ChatError {
    /// Returns whether the provider may have acted although the chat failed
    /// ([`ModelError::may_have_acted`]).
    #[must_use]
    pub fn may_have_acted(&self) -> bool {
        matches!(self, Self::Model(error) if error.may_have_acted)
    }

    /// Returns the error code for API responses.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Model(error) => error.code(),
            Self::TokenLimit { .. } => ErrorCode::RateLimited,
            Self::NotSaved(failure) => failure.code,
        }
    }
}
