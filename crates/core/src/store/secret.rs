use std::fmt;

use async_trait::async_trait;

use super::StoreError;

/// The purpose of a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum SecretKind {
    /// OAuth tokens and client credentials for a server.
    OAuthTokens,
    /// A credential that all users of a server share.
    Credential,
    /// A credential of one user for a server.
    UserCredential,
    /// An API key of a model provider.
    ProviderKey,
    /// An API key of a service that a built-in tool uses.
    ToolKey,
    /// A known text with which the encryption key is verified.
    KeyCheck,
}

impl SecretKind {
    /// Returns the stored name of the kind.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::OAuthTokens => "oauth_tokens",
            Self::Credential => "credential",
            Self::UserCredential => "user_credential",
            Self::ProviderKey => "provider_key",
            Self::ToolKey => "tool_key",
            Self::KeyCheck => "key_check",
        }
    }

    /// Returns the kind with this stored name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        let kinds = [
            Self::OAuthTokens,
            Self::Credential,
            Self::UserCredential,
            Self::ProviderKey,
            Self::ToolKey,
            Self::KeyCheck,
        ];
        kinds.into_iter().find(|kind| kind.as_str() == name)
    }
}

/// The key under which a secret is stored.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SecretId {
    /// The purpose of the secret.
    pub kind: SecretKind,
    /// The ID of the secret among the secrets of its kind.
    pub id: String,
}

/// An encrypted secret, opaque to the store.
#[derive(Clone, PartialEq, Eq)]
pub struct SealedSecret {
    /// The ID of the key with which the secret is encrypted.
    pub key_id: String,
    /// Everything that is needed to decrypt the secret, except the key.
    pub sealed: Vec<u8>,
}

impl fmt::Debug for SealedSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SealedSecret")
            .field("key_id", &self.key_id)
            .finish_non_exhaustive()
    }
}

/// A re-encrypted secret.
#[derive(Debug, Clone)]
pub struct SecretReplacement {
    /// The key under which the secret is stored.
    pub secret_id: SecretId,
    /// The expected current form of the secret.
    pub old_secret: SealedSecret,
    /// The re-encrypted form of the secret.
    pub new_secret: SealedSecret,
}

/// Stores encrypted secrets. The caller encrypts and decrypts them.
#[async_trait]
pub trait SecretStore: Send + Sync {
    /// Stores a secret, replacing any other with this ID.
    ///
    /// # Errors
    /// The store cannot be written.
    async fn put_secret(
        &self,
        secret_id: &SecretId,
        secret: &SealedSecret,
    ) -> Result<(), StoreError>;

    /// Returns the secret with this ID.
    ///
    /// # Errors
    /// The store cannot be read.
    async fn find_secret(&self, secret_id: &SecretId) -> Result<Option<SealedSecret>, StoreError>;

    /// Removes a secret. Succeeds if there is none.
    ///
    /// # Errors
    /// The store cannot be written.
    async fn remove_secret(&self, secret_id: &SecretId) -> Result<(), StoreError>;

    /// Returns all secrets, ordered by kind and ID.
    ///
    /// # Errors
    /// The store cannot be read.
    async fn secrets(&self) -> Result<Vec<(SecretId, SealedSecret)>, StoreError>;

    /// Replaces all secrets in one transaction.
    ///
    /// # Errors
    /// `conflict` if the `old_secret` values are not exactly the stored secrets.
    async fn replace_secrets(&self, replacements: &[SecretReplacement]) -> Result<(), StoreError>;
}
