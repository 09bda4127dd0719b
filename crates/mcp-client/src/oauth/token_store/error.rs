/// The error of a token store that cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[error("the token store failed: {source}")]
pub struct TokenStoreError {
    source: Box<dyn std::error::Error + Send + Sync>,
}

impl TokenStoreError {
    /// Creates an error from the store's own error, whose message must not contain secrets.
    pub fn new(source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        let source = source.into();
        Self { source }
    }
}
