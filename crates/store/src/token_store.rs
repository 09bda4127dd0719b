use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pillion_core::store::SecretKind;
use pillion_mcp_client::{OAuthCredentials, StoreFuture, TokenKey, TokenStore, TokenStoreError};
use secrecy::{ExposeSecret, SecretString};
use tokio::sync::Mutex;
use zeroize::Zeroizing;

use crate::vault::{Vault, VaultError};

/// A store of OAuth tokens in a [`Vault`], for one identity.
///
/// A client may still run after its tokens must no longer be stored: when an MCP server is removed,
/// running calls continue, and may renew a token. After [`close`](Self::close), renewed tokens are
/// not stored.
#[derive(Debug)]
pub struct VaultTokenStore {
    vault: Arc<Vault>,
    identity: String,
    is_closed: AtomicBool,
    /// Locked while an entry is being changed.
    change_lock: Mutex<()>,
}

impl VaultTokenStore {
    /// Creates the store of an identity: a user, or the empty string for the sidecar itself.
    pub fn new(vault: Arc<Vault>, identity: impl Into<String>) -> Self {
        Self {
            vault,
            identity: identity.into(),
            is_closed: AtomicBool::new(false),
            change_lock: Mutex::default(),
        }
    }

    /// Closes the token store. A closed token store returns no tokens, and ignores requests to save
    /// or remove tokens. Clients keep using the tokens that they hold. Waits for saves in progress.
    pub async fn close(&self) {
        self.mark_closed();
        drop(self.change_lock.lock().await);
    }

    /// Closes the token store like [`close`](Self::close), but does not wait for saves in progress.
    pub fn mark_closed(&self) {
        self.is_closed.store(true, Ordering::SeqCst);
    }

    /// Removes the identity's tokens for `key`, or all tokens of the identity if `key` is `None`.
    /// The token store stays open.
    ///
    /// # Errors
    /// The store cannot be read or written.
    pub async fn forget(&self, key: Option<&TokenKey>) -> Result<(), VaultError> {
        if let Some(key) = key {
            let id = self.id(key);
            return self.vault.remove(SecretKind::OAuthTokens, &id).await;
        }
        for id in self.vault.ids(SecretKind::OAuthTokens).await? {
            let parts: Option<[String; 3]> = serde_json::from_str(&id).ok();
            if parts.is_some_and(|[identity, ..]| identity == self.identity) {
                self.vault.remove(SecretKind::OAuthTokens, &id).await?;
            }
        }
        Ok(())
    }

    fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::SeqCst)
    }

    /// Returns the ID of the secret for a key. The ID is a JSON text, because each of its three
    /// parts (identity, server and client) may contain any character that could serve as a
    /// separator.
    fn id(&self, key: &TokenKey) -> String {
        serde_json::json!([self.identity, key.server, key.client]).to_string()
    }
}

impl TokenStore for VaultTokenStore {
    fn load<'a>(&'a self, key: &'a TokenKey) -> StoreFuture<'a, Option<OAuthCredentials>> {
        Box::pin(async move {
            if self.is_closed() {
                return Ok(None);
            }
            let get_result = self.vault.get(SecretKind::OAuthTokens, &self.id(key)).await;
            let Some(json) = get_result.map_err(TokenStoreError::new)? else {
                return Ok(None);
            };
            let credentials = serde_json::from_str(json.expose_secret());
            // The error does not include the parser's message, which could contain a part of a
            // token.
            credentials.map(Some).map_err(|_| {
                TokenStoreError::new("the stored value is not a set of OAuth credentials")
            })
        })
    }

    fn save<'a>(&'a self, key: &'a TokenKey, credentials: OAuthCredentials) -> StoreFuture<'a, ()> {
        Box::pin(async move {
            let _guard = self.change_lock.lock().await;
            if self.is_closed() {
                return Ok(());
            }
            let json = serde_json::to_string(&credentials).map_err(TokenStoreError::new)?;
            let secret = SecretString::from(Zeroizing::new(json).as_str());
            let id = self.id(key);
            let put_result = self.vault.put(SecretKind::OAuthTokens, &id, &secret).await;
            put_result.map_err(TokenStoreError::new)
        })
    }

    fn clear<'a>(&'a self, key: &'a TokenKey) -> StoreFuture<'a, ()> {
        Box::pin(async move {
            let _guard = self.change_lock.lock().await;
            if self.is_closed() {
                return Ok(());
            }
            self.forget(Some(key)).await.map_err(TokenStoreError::new)
        })
    }
}
