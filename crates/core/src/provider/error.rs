use super::Provider;

/// Why a response body cannot be parsed. `path` is a location in the body, such as
/// `choices[0].message.tool_calls[2].id`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProviderError {
    /// The body is an error of the provider.
    #[error("The provider '{provider}' reported an error: {message}")]
    Reported {
        /// The format of the response.
        provider: Provider,
        /// The provider's error message.
        message: String,
    },
    /// A required part is missing.
    #[error("Malformed response of the provider '{provider}': {path} is missing")]
    Missing {
        /// The format of the response.
        provider: Provider,
        /// The path of the missing part.
        path: String,
    },
    /// A part has the wrong type.
    #[error(
        "Malformed response of the provider '{provider}': {path} is {found}, expected {expected}"
    )]
    WrongType {
        /// The format of the response.
        provider: Provider,
        /// The path of the part.
        path: String,
        /// The expected type.
        expected: &'static str,
        /// The actual type.
        found: &'static str,
    },
}
