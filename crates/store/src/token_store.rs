use std::sync::Arc;

use pillion_core::mcp::{OAuthCredentials, StoreFuture, TokenKey, TokenStore, TokenStoreError};
use pillion_core::store::SecretKind;
use secrecy::{ExposeSecret, SecretString};
use zeroize::Zeroizing;

use crate::vault::{Vault, VaultError};

/// Keeps what OAuth obtains in a [`Vault`], for one identity.
#[derive(Debug)]
pub struct VaultTokenStore {
    vault: Arc<Vault>,
    identity: String,
}

impl VaultTokenStore {
    /// The tokens of this identity: a user, or the empty text for the sidecar's own.
    pub fn new(vault: Arc<Vault>, identity: impl Into<String>) -> Self {
        let identity = identity.into();
        Self { vault, identity }
    }

    /// Removes what this identity has at the server of that URL (see [`TokenKey::server`]), or
    /// at all, whichever client it was obtained for.
    ///
    /// # Errors
    /// [`VaultError::Store`].
    pub async fn forget(&self, server: Option<&str>) -> Result<(), VaultError> {
        for id in self.vault.ids(SecretKind::OAuthTokens).await? {
            let parts: Option<[String; 3]> = serde_json::from_str(&id).ok();
            let is_meant = |[identity, at, _]: [String; 3]| {
                identity == self.identity && server.is_none_or(|server| at == server)
            };
            if parts.is_some_and(is_meant) {
                self.vault.remove(SecretKind::OAuthTokens, &id).await?;
            }
        }
        Ok(())
    }

    /// JSON, since any of the three may contain whatever would stand between them.
    fn id(&self, key: &TokenKey) -> String {
        serde_json::json!([self.identity, key.server, key.client]).to_string()
    }
}

impl TokenStore for VaultTokenStore {
    fn load<'a>(&'a self, key: &'a TokenKey) -> StoreFuture<'a, Option<OAuthCredentials>> {
        Box::pin(async move {
            let stored = self.vault.get(SecretKind::OAuthTokens, &self.id(key)).await;
            let Some(json) = stored.map_err(TokenStoreError::new)? else {
                return Ok(None);
            };
            let credentials = serde_json::from_str(json.expose_secret());
            // The error of the parser could show a piece of a token.
            credentials
                .map(Some)
                .map_err(|_| TokenStoreError::new("what is stored are no credentials"))
        })
    }

    fn save<'a>(&'a self, key: &'a TokenKey, credentials: OAuthCredentials) -> StoreFuture<'a, ()> {
        Box::pin(async move {
            let json = serde_json::to_string(&credentials).map_err(TokenStoreError::new)?;
            let json = Zeroizing::new(json);
            let json = SecretString::from(json.as_str());
            let id = self.id(key);
            let stored = self.vault.put(SecretKind::OAuthTokens, &id, &json).await;
            stored.map_err(TokenStoreError::new)
        })
    }

    fn clear<'a>(&'a self, key: &'a TokenKey) -> StoreFuture<'a, ()> {
        Box::pin(async move {
            let id = self.id(key);
            let removed = self.vault.remove(SecretKind::OAuthTokens, &id).await;
            removed.map_err(TokenStoreError::new)
        })
    }
}
