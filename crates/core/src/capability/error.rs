/// A model configuration that cannot be read. The `path` of a variant is the key, such as
/// `models[1].tools.enabled_tools[0]`.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ModelConfigError {
    /// The text is no JSON.
    #[error("The model configuration is not valid JSON: {reason}")]
    Json {
        /// What the parser found, and where.
        reason: String,
    },
    /// The text is no TOML.
    #[error("The model configuration is not valid TOML: {reason}")]
    Toml {
        /// What the parser found, and where.
        reason: String,
    },
    /// A key has a value of another type.
    #[error("{path}: expected {expected}, found {found}")]
    WrongType {
        /// The key.
        path: String,
        /// What may stand there.
        expected: &'static str,
        /// What stands there.
        found: String,
    },
    /// A key that every model needs is not there, or is empty.
    #[error("{path}: missing")]
    Missing {
        /// The key.
        path: String,
    },
}
