use async_trait::async_trait;

use super::{StoreError, Timestamp};

/// An access token of a client. The token itself is not stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessToken {
    /// SHA-256 of the token, in hexadecimal digits.
    pub hash: String,
    /// The name that the operator chose; unique.
    pub name: String,
    /// The scopes that the token grants.
    pub scopes: Vec<String>,
    /// The time at which the token was created.
    pub created_at: Timestamp,
    /// The time at which the token expires; `None` if the token never expires.
    pub expires_at: Option<Timestamp>,
    /// The time of the last use of the token, accurate to about a minute.
    pub last_used_at: Option<Timestamp>,
    /// The time at which the token was revoked; `None` if the token was not revoked.
    pub revoked_at: Option<Timestamp>,
}

/// Stores access tokens of clients.
#[async_trait]
pub trait AccessTokenStore: Send + Sync {
    /// Adds a token.
    ///
    /// # Errors
    /// `conflict` if a token with this hash or name exists.
    async fn insert_access_token(&self, token: &AccessToken) -> Result<(), StoreError>;

    /// Returns the token with this hash, even if it is revoked.
    ///
    /// # Errors
    /// The store cannot be read.
    async fn find_access_token(&self, hash: &str) -> Result<Option<AccessToken>, StoreError>;

    /// Returns all tokens, ordered by name.
    ///
    /// # Errors
    /// The store cannot be read.
    async fn access_tokens(&self) -> Result<Vec<AccessToken>, StoreError>;

    /// Records that a token was used. Does nothing if the token no longer exists.
    ///
    /// # Errors
    /// The store cannot be written.
    async fn mark_access_token_used(&self, hash: &str, at: Timestamp) -> Result<(), StoreError>;

    /// Revokes the token with this name. Keeps the original time if the token is already revoked.
    ///
    /// # Errors
    /// `not_found` if there is no such token.
    async fn revoke_access_token(&self, name: &str, at: Timestamp) -> Result<(), StoreError>;
}
