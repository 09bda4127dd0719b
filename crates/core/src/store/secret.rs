use std::fmt;

use async_trait::async_trait;

use super::StoreError;

/// What a secret is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum SecretKind {
    /// What OAuth has obtained for a server.
    OAuthTokens,
    /// A credential for a server, of everybody.
    Credential,
    /// A credential for a server, of one user.
    UserCredential,
    /// The key of a provider of language models.
    ProviderKey,
    /// The key of a service that a built-in tool asks.
    ToolKey,
    /// What a key is known by: opens with the right one alone.
    KeyCheck,
}

impl SecretKind {
    /// The kind as it is stored.
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

    /// The kind of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        let all = [
            Self::OAuthTokens,
            Self::Credential,
            Self::UserCredential,
            Self::ProviderKey,
            Self::ToolKey,
            Self::KeyCheck,
        ];
        all.into_iter().find(|kind| kind.as_str() == name)
    }
}

/// Where a secret is kept.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SecretPlace {
    /// What it is for.
    pub kind: SecretKind,
    /// Which one.
    pub id: String,
}

/// An encrypted secret: opaque to the store.
#[derive(Clone, PartialEq, Eq)]
pub struct SealedSecret {
    /// Which key it is encrypted with.
    pub key_id: String,
    /// Everything that opening it takes besides the key.
    pub sealed: Vec<u8>,
}

impl fmt::Debug for SealedSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SealedSecret")
            .field("key_id", &self.key_id)
            .finish_non_exhaustive()
    }
}

/// A secret that is encrypted anew.
#[derive(Debug, Clone)]
pub struct SecretReplacement {
    /// Where it is kept.
    pub place: SecretPlace,
    /// What must be there.
    pub old: SealedSecret,
    /// What is there afterwards.
    pub new: SealedSecret,
}

/// Keeps encrypted secrets; encrypting them is done before.
#[async_trait]
pub trait SecretStore: Send + Sync {
    /// Puts a secret in the place of the one before.
    ///
    /// # Errors
    /// Errors of the store.
    async fn put_secret(
        &self,
        place: &SecretPlace,
        secret: &SealedSecret,
    ) -> Result<(), StoreError>;

    /// The secret of that place.
    ///
    /// # Errors
    /// Errors of the store.
    async fn secret(&self, place: &SecretPlace) -> Result<Option<SealedSecret>, StoreError>;

    /// Removes a secret; having none is no error.
    ///
    /// # Errors
    /// Errors of the store.
    async fn remove_secret(&self, place: &SecretPlace) -> Result<(), StoreError>;

    /// All secrets, by place.
    ///
    /// # Errors
    /// Errors of the store.
    async fn secrets(&self) -> Result<Vec<(SecretPlace, SealedSecret)>, StoreError>;

    /// Replaces all secrets at once: either all of them or none.
    ///
    /// # Errors
    /// `conflict` when these are not exactly the secrets that there are.
    async fn replace_secrets(&self, all: &[SecretReplacement]) -> Result<(), StoreError>;
}
