/// Why an HTTP tool cannot be as it was declared. No text repeats a credential.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct HttpToolError {
    /// The key of the declaration that is at fault; empty where it is the whole.
    pub key: &'static str,
    /// What is wrong with it.
    pub what: String,
}

impl HttpToolError {
    pub(crate) fn new(key: &'static str, what: impl Into<String>) -> Self {
        Self {
            key,
            what: what.into(),
        }
    }
}
