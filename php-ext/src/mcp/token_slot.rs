use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use pillion_mcp_client::{OAuthCredentials, StoreFuture, TokenKey, TokenStore};

use super::router::MessageRouter;

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
        has_changed.then(|| self.lock_credentials().clone())
    }

    /// Returns the credentials as JSON, if there are any.
    pub fn to_json(&self) -> Option<String> {
        let credentials = self.lock_credentials();
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

    fn lock_credentials(&self) -> MutexGuard<'_, Option<OAuthCredentials>> {
        // A poisoned lock is ignored, because a panic while the lock is held leaves a valid value
        // behind.
        self.credentials
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn set_credentials(&self, credentials: Option<OAuthCredentials>) {
        *self.lock_credentials() = credentials;
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
        Box::pin(async { Ok(self.lock_credentials().clone()) })
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
