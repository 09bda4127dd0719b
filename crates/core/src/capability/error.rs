/// Why a model configuration is invalid. `path` is the path of the key, such as
/// `models[1].tools.enabled_tools[0]`.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ModelConfigError {
    /// The text is not valid JSON.
    #[error("The model configuration is not valid JSON: {reason}")]
    Json {
        /// The error message of the JSON parser, with the location in the text.
        reason: String,
    },
    /// The text is not valid TOML.
    #[error("The model configuration is not valid TOML: {reason}")]
    Toml {
        /// The error message of the TOML parser, with the location in the text.
        reason: String,
    },
    /// A value has the wrong type.
    #[error("{path}: expected {expected}, found {actual}")]
    WrongType {
        /// The path of the key.
        path: String,
        /// The expected type, such as `a list`.
        expected: &'static str,
        /// The type of the actual value, with its content if that is short.
        actual: String,
    },
    /// A required key is missing or empty.
    #[error("{path}: the key is required and must not be empty")]
    Missing {
        /// The path of the key.
        path: String,
    },
}
