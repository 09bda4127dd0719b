use async_trait::async_trait;
use secrecy::SecretString;

use crate::ModelError;

/// The source of a provider's API key. The model reads the key for each request, so that a changed
/// key takes effect at once. A [`SecretString`] is a source of one constant key; a closure is a
/// source that returns the current key.
#[async_trait]
pub trait KeySource: Send + Sync {
    /// Returns the key, or `None` to send no key.
    ///
    /// # Errors
    /// The key cannot be read. The error is for example
    /// [`Unauthorized`](crate::ModelErrorKind::Unauthorized).
    async fn key(&self) -> Result<Option<SecretString>, ModelError>;
}

#[async_trait]
impl KeySource for SecretString {
    async fn key(&self) -> Result<Option<SecretString>, ModelError> {
        Ok(Some(self.clone()))
    }
}

#[async_trait]
impl<F: Fn() -> Option<SecretString> + Send + Sync> KeySource for F {
    async fn key(&self) -> Result<Option<SecretString>, ModelError> {
        Ok(self())
    }
}
