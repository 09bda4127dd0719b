/// Why a model configuration is invalid. `path` is the path of the key, such as
/// `models[1].tools.enabled_tools[0]`.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ModelConfigError {
    /// The text is not valid JSON.
    #[error("The model configuration is not valid JSON: {reason}")]
    Json {
        /// What the JSON parser rejects, and the location in the text.
        reason: String,
    },
    /// The text is not valid TOML.
    #[error("The model configuration is not valid TOML: {reason}")]
    Toml {
        /// What the TOML parser rejects, and the location in the text.
        reason: String,
    },
    /// A value has the wrong type.
    #[error("{path}: expected {expected}, found {found}")]
    WrongType {
        /// The path of the key.
        path: String,
        /// The expected type, such as `a list`.
        expected: &'static str,
        /// The type of the actual value, with its content if that is short.
        found: String,
    },
    /// A required key is missing or empty.
    #[error("{path}: missing")]
    Missing {
        /// The path of the key.
        path: String,
    },
}
