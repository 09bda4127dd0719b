use async_trait::async_trait;

use super::{StoreError, Timestamp};

/// A token that lets a client in (requirement L3); the token itself is not kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessToken {
    /// SHA-256 of the token, in hexadecimal digits.
    pub hash: String,
    /// What the operator calls it; no other token has this name.
    pub name: String,
    /// What it allows.
    pub scopes: Vec<String>,
    /// When it was made.
    pub created_at: Timestamp,
    /// From when on it is no longer good; none for never.
    pub expires_at: Option<Timestamp>,
    /// When it was used last, to the minute or so.
    pub last_used_at: Option<Timestamp>,
    /// When it was revoked.
    pub revoked_at: Option<Timestamp>,
}

/// Keeps the tokens that let clients in.
#[async_trait]
pub trait AccessTokenStore: Send + Sync {
    /// Adds a token.
    ///
    /// # Errors
    /// `conflict` when there is one of that hash or name.
    async fn insert_access_token(&self, token: &AccessToken) -> Result<(), StoreError>;

    /// The token of that hash, revoked or not.
    ///
    /// # Errors
    /// Errors of the store.
    async fn access_token(&self, hash: &str) -> Result<Option<AccessToken>, StoreError>;

    /// All tokens, by name.
    ///
    /// # Errors
    /// Errors of the store.
    async fn access_tokens(&self) -> Result<Vec<AccessToken>, StoreError>;

    /// Notes that a token was used; one that is gone is no error.
    ///
    /// # Errors
    /// Errors of the store.
    async fn access_token_used(&self, hash: &str, at: Timestamp) -> Result<(), StoreError>;

    /// Revokes the token of that name; one that is revoked stays so, since when it was.
    ///
    /// # Errors
    /// `not_found`.
    async fn revoke_access_token(&self, name: &str, at: Timestamp) -> Result<(), StoreError>;
}
