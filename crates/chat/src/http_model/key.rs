use async_trait::async_trait;
use secrecy::SecretString;

use crate::ModelError;

/// Where a provider's key comes from. It is asked for each request, so that a key that has been
/// changed counts at once. A [`SecretString`] is one that never changes; a closure is one, too.
#[async_trait]
pub trait KeySource: Send + Sync {
    /// The key; none where there is none to be sent.
    ///
    /// # Errors
    /// The key cannot be read: [`Unauthorized`](crate::ModelErrorKind::Unauthorized), say.
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
