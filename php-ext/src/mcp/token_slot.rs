use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use pillion_mcp_client::{OAuthCredentials, StoreFuture, TokenKey, TokenStore};

use super::router::MessageRouter;
use crate::runtime::lock;

/// Holds the OAuth tokens of one connection, which the engine may change and PHP's `TokenStore`
/// stores. The store is read before the connection is created, and written on PHP's thread after
/// the tokens have changed.
#[derive(Default)]
pub struct TokenSlot {
    credentials: Mutex<Option<OAuthCredentials>>,
    has_changed: AtomicBool,
    router: OnceLock<Arc<MessageRouter>>,
}

impl TokenSlot {
    /// Creates the slot with the tokens from the `TokenStore`.
    pub fn new(credentials: Option<OAuthCredentials>) -> Self {
        Self {
            credentials: Mutex::new(credentials),
            ..Self::default()
        }
    }

    /// Returns the changed tokens if they have not been stored yet. An inner `None` means that the
    /// store's entry must be removed.
    pub fn take_change(&self) -> Option<Option<OAuthCredentials>> {
        let has_changed = self.has_changed.swap(false, Ordering::AcqRel);
        has_changed.then(|| lock(&self.credentials).clone())
    }

    /// Returns the credentials as JSON, if there are any.
    pub fn to_json(&self) -> Option<String> {
        let credentials = lock(&self.credentials);
        credentials
            .as_ref()
            .and_then(|credentials| serde_json::to_string(credentials).ok())
    }

    /// Marks the tokens as changed, so that they are stored again.
    pub fn mark_changed(&self) {
        self.has_changed.store(true, Ordering::Release);
    }

    /// Attaches the router whose waiting thread is woken after a change of the tokens.
    pub(super) fn attach(&self, router: &Arc<MessageRouter>) {
        let _ = self.router.set(Arc::clone(router));
    }

    fn set_credentials(&self, credentials: Option<OAuthCredentials>) {
        *lock(&self.credentials) = credentials;
        self.mark_changed();
        if let Some(router) = self.router.get() {
            // The router wakes a waiting thread, which stores the tokens. If no thread waits, the
            // tokens are stored after the next call.
            router.wake();
        }
    }
}

impl TokenStore for TokenSlot {
    fn load<'a>(&'a self, _: &'a TokenKey) -> StoreFuture<'a, Option<OAuthCredentials>> {
        Box::pin(async { Ok(lock(&self.credentials).clone()) })
    }

    fn save<'a>(&'a self, _: &'a TokenKey, credentials: OAuthCredentials) -> StoreFuture<'a, ()> {
        self.set_credentials(Some(credentials));
        Box::pin(async { Ok(()) })
    }

    fn clear<'a>(&'a self, _: &'a TokenKey) -> StoreFuture<'a, ()> {
        self.set_credentials(None);
        Box::pin(async { Ok(()) })
    }
}
