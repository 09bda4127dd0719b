use super::Provider;

/// A response body that cannot be read. The `path` of a variant is a place in the body,
/// such as `choices[0].message.tool_calls[2].id`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProviderError {
    /// The body is an error of the provider's own.
    #[error("The provider '{provider}' reported an error: {message}")]
    Reported {
        /// The format that was read.
        provider: Provider,
        /// The provider's words.
        message: String,
    },
    /// Something that the format has is not there.
    #[error("Malformed response of the provider '{provider}': {path} is missing")]
    Missing {
        /// The format that was read.
        provider: Provider,
        /// What is missing.
        path: String,
    },
    /// Something is of another type than the format says.
    #[error(
        "Malformed response of the provider '{provider}': {path} is {found}, expected {expected}"
    )]
    WrongType {
        /// The format that was read.
        provider: Provider,
        /// Where.
        path: String,
        /// What should stand there.
        expected: &'static str,
        /// What stands there.
        found: &'static str,
    },
}
