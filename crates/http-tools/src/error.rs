/// The reason why the declaration of an HTTP tool is invalid. Messages contain no credentials.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct HttpToolError {
    /// The invalid key of the declaration; empty if the error concerns the whole declaration.
    pub key: &'static str,
    /// What is wrong with the value of the key.
    pub message: String,
}

impl HttpToolError {
    pub(crate) fn new(key: &'static str, message: impl Into<String>) -> Self {
        Self {
            key,
            message: message.into(),
        }
    }
}
