use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use pillion_mcp_client::{OAuthCredentials, StoreFuture, TokenKey, TokenStore};

use super::router::MessageRouter;

/// Holds the tokens of one connection between the engine and PHP's `TokenStore`. The store is read
/// before the connection is created, and written on PHP's thread after the tokens have changed.
#[derive(Default)]
pub struct TokenSlot {
    credentials: Mutex<Option<OAuthCredentials>>,
    has_changed: AtomicBool,
    router: OnceLock<Arc<MessageRouter>>,
}

impl TokenSlot {
    /// Creates the slot with the tokens from the store.
    pub fn new(credentials: Option<OAuthCredentials>) -> Self {
        Self {
            credentials: Mutex::new(credentials),
            ..Self::default()
        }
    }

    /// Returns the change of the tokens that is not stored yet, if there is one. The inner `None`
    /// means that the entry must be removed from the store.
    pub fn take_change(&self) -> Option<Option<OAuthCredentials>> {
        let has_changed = self.has_changed.swap(false, Ordering::AcqRel);
        has_changed.then(|| self.credentials().clone())
    }

    /// Returns the credentials as JSON, if there are any.
    pub fn text(&self) -> Option<String> {
        let credentials = self.credentials();
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

    fn credentials(&self) -> MutexGuard<'_, Option<OAuthCredentials>> {
        // A panic while the lock is held leaves a valid value behind.
        self.credentials
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, credentials: Option<OAuthCredentials>) {
        *self.credentials() = credentials;
        self.mark_changed();
        if let Some(router) = self.router.get() {
            // The woken thread stores the tokens; if no thread waits, they are stored after the
            // next call.
            router.wake();
        }
    }
}

impl TokenStore for TokenSlot {
    fn load<'a>(&'a self, _: &'a TokenKey) -> StoreFuture<'a, Option<OAuthCredentials>> {
        Box::pin(async { Ok(self.credentials().clone()) })
    }

    fn save<'a>(&'a self, _: &'a TokenKey, credentials: OAuthCredentials) -> StoreFuture<'a, ()> {
        self.set(Some(credentials));
        Box::pin(async { Ok(()) })
    }

    fn clear<'a>(&'a self, _: &'a TokenKey) -> StoreFuture<'a, ()> {
        self.set(None);
        Box::pin(async { Ok(()) })
    }
}
