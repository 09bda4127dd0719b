use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pillion_core::mcp::{OAuthCredentials, StoreFuture, TokenKey, TokenStore, TokenStoreError};
use pillion_core::store::SecretKind;
use secrecy::{ExposeSecret, SecretString};
use tokio::sync::Mutex;
use zeroize::Zeroizing;

use crate::vault::{Vault, VaultError};

/// Keeps what OAuth obtains in a [`Vault`], for one identity.
///
/// A client may outlive the right to its tokens: calls go on to their end when a server is
/// removed, and a token is renewed for them. [`close`](Self::close) keeps that out of the vault.
#[derive(Debug)]
pub struct VaultTokenStore {
    vault: Arc<Vault>,
    identity: String,
    is_closed: AtomicBool,
    /// Held by whoever changes an entry.
    changing: Mutex<()>,
}

impl VaultTokenStore {
    /// The tokens of this identity: a user, or the empty text for the sidecar's own.
    pub fn new(vault: Arc<Vault>, identity: impl Into<String>) -> Self {
        Self {
            vault,
            identity: identity.into(),
            is_closed: AtomicBool::new(false),
            changing: Mutex::default(),
        }
    }

    /// From now on there is nothing in it, and nothing is saved or cleared: who has it goes on
    /// with the tokens at hand. What is being saved has been when this returns.
    pub async fn close(&self) {
        self.refuse();
        drop(self.changing.lock().await);
    }

    /// As [`close`](Self::close), but what is being saved may be saved yet.
    pub fn refuse(&self) {
        self.is_closed.store(true, Ordering::SeqCst);
    }

    /// Removes what this identity has under that key, or at every server and of every client. No
    /// other store is closed by it.
    ///
    /// # Errors
    /// [`VaultError::Store`].
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

    /// JSON, since any of the three may contain whatever would stand between them.
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
            let _changing = self.changing.lock().await;
            if self.is_closed() {
                return Ok(());
            }
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
            let _changing = self.changing.lock().await;
            if self.is_closed() {
                return Ok(());
            }
            self.forget(Some(key)).await.map_err(TokenStoreError::new)
        })
    }
}
