use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use ext_php_rs::types::Zval;
use pillion_mcp_client::{
    AuthorizationPrompt, AuthorizationRequest, OAuthCredentials, PendingAuthorization, PromptError,
    PromptFuture, StoreFuture, TokenKey, TokenStore,
};
use serde_json::json;

use super::hooks::{Hooks, TOKENS};
use super::router::MessageRouter;
use super::server::{Server, without_value};
use super::server_job::ServerJob;
use super::tool_list::short_key;
use crate::exception;
use crate::json::{EmptyObject, decode, to_value};
use crate::wait::ReplySender;
use crate::zend::{Failure, Object, string_of};

/// The tokens of one connection, between the engine and the `TokenStore` of PHP. The store is read
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

    /// Returns the change that is not stored yet, if there is one. The inner `None` means that the
    /// entry must be removed.
    pub fn take_change(&self) -> Option<Option<OAuthCredentials>> {
        let has_changed = self.has_changed.swap(false, Ordering::AcqRel);
        has_changed.then(|| lock(&self.credentials).clone())
    }

    /// Returns the credentials as JSON, if there are any.
    pub fn text(&self) -> Option<String> {
        let credentials = lock(&self.credentials);
        credentials
            .as_ref()
            .and_then(|credentials| serde_json::to_string(credentials).ok())
    }

    /// Marks the tokens as changed, so that they are stored later.
    pub fn mark_changed(&self) {
        self.has_changed.store(true, Ordering::Release);
    }

    /// Attaches the router, whose waiting thread is woken up after a change.
    pub(super) fn attach(&self, router: &Arc<MessageRouter>) {
        let _ = self.router.set(Arc::clone(router));
    }

    fn set(&self, credentials: Option<OAuthCredentials>) {
        *lock(&self.credentials) = credentials;
        self.mark_changed();
        if let Some(router) = self.router.get() {
            // If no thread waits, the tokens are stored after the next call.
            router.wake();
        }
    }
}

impl TokenStore for TokenSlot {
    fn load<'a>(&'a self, _: &'a TokenKey) -> StoreFuture<'a, Option<OAuthCredentials>> {
        Box::pin(async { Ok(lock(&self.credentials).clone()) })
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

/// The tokens that a `TokenStore` returned.
pub struct StoredOAuthTokens {
    pub credentials: OAuthCredentials,
    /// The same credentials as JSON.
    pub text: String,
}

/// Loads the tokens from the object's `TokenStore`, if it has one.
///
/// # Errors
/// An exception of the store. An `InvalidInputException` if the store returns a value that is not a
/// valid entry.
pub fn load(hooks: Hooks<'_>, server: &Server) -> Result<Option<StoredOAuthTokens>, Failure> {
    let store = hooks.get(TOKENS);
    let Some(store) = store.as_ref().and_then(Object::of) else {
        return Ok(None);
    };
    let found = store.call("load", [string_of(key(server))])?;
    if found.is_null() {
        return Ok(None);
    }
    let invalid_entry = |why: &dyn std::fmt::Display| {
        exception::invalid_input(format!(
            "{}::load() returned no valid tokens: {why}",
            store.class_name()
        ))
    };
    let mut value = to_value(&found)?;
    // PHP encodes an empty map as `[]`.
    if let Some(registrations) = value.get_mut("registrations")
        && *registrations == json!([])
    {
        *registrations = json!({});
    }
    let credentials: OAuthCredentials = serde_json::from_value(value)
        .map_err(|error| invalid_entry(&without_value(true, &error.to_string())))?;
    let text = serde_json::to_string(&credentials).map_err(|error| invalid_entry(&error))?;
    Ok(Some(StoredOAuthTokens { credentials, text }))
}

/// Saves changed tokens in the object's `TokenStore`, and returns them as JSON.
///
/// # Errors
/// An exception of the store. In this case the tokens are saved again after the next call.
pub fn store(
    hooks: Hooks<'_>,
    server: &Server,
    slot: &TokenSlot,
) -> Result<Option<String>, Failure> {
    let Some(change) = slot.take_change() else {
        return Ok(None);
    };
    let text = change
        .as_ref()
        .and_then(|credentials| serde_json::to_string(credentials).ok());
    let found = hooks.get(TOKENS);
    let Some(store) = found.as_ref().and_then(Object::of) else {
        return Ok(text);
    };
    let entry = match &text {
        Some(text) => decode(text, EmptyObject::Array)?.unwrap_or_default(),
        None => Zval::new(),
    };
    if let Err(failure) = store.call("save", [string_of(key(server)), entry]) {
        slot.mark_changed();
        return Err(failure);
    }
    Ok(text)
}

/// Returns the key of a server's tokens in the store: letters, digits and `_`, at most 64
/// characters.
fn key(server: &Server) -> String {
    let identity = match (server.config().url(), server.oauth()) {
        (Some(url), Some(oauth)) => {
            let key = TokenKey::new(url, oauth);
            format!("{}\0{}", key.server, key.client)
        }
        _ => String::new(),
    };
    short_key("tokens", &identity)
}

/// A deferred authorization: the user grants it later, possibly while another process runs.
pub struct DeferredAuthorization {
    /// The URL of the authorization page.
    pub url: String,
    /// The requested scopes.
    pub scopes: Vec<String>,
    pub pending: PendingAuthorization,
}

/// Saves a pending authorization until the browser returns.
///
/// # Errors
/// An exception of the token store.
pub fn save_pending(hooks: Hooks<'_>, pending: &PendingAuthorization) -> Result<(), Failure> {
    let text = serde_json::to_string(pending).unwrap_or_default();
    let entry = decode(&text, EmptyObject::Array)?.unwrap_or_default();
    save(hooks, &pending_key(&pending.state), entry)
}

/// Removes the pending authorization with this state from the store and returns it. It can be used
/// only once.
///
/// # Errors
/// An exception of the token store.
pub fn take_pending(
    hooks: Hooks<'_>,
    state: &str,
) -> Result<Option<PendingAuthorization>, Failure> {
    let key = pending_key(state);
    let store = hooks.get(TOKENS);
    let Some(store) = store.as_ref().and_then(Object::of) else {
        return Ok(None);
    };
    let found = store.call("load", [string_of(&key)])?;
    if found.is_null() {
        return Ok(None);
    }
    save(hooks, &key, Zval::new())?;
    Ok(serde_json::from_value(to_value(&found)?).ok())
}

fn save(hooks: Hooks<'_>, key: &str, entry: Zval) -> Result<(), Failure> {
    let store = hooks.get(TOKENS);
    if let Some(store) = store.as_ref().and_then(Object::of) {
        store.call("save", [string_of(key), entry])?;
    }
    Ok(())
}

fn pending_key(state: &str) -> String {
    short_key("pending", state)
}

/// Requests authorizations through the waiting PHP thread, or defers them.
pub struct PhpPrompt {
    router: Arc<MessageRouter>,
    /// Whether the object has a callback for authorizations.
    has_callback: bool,
    deferred: Mutex<Option<DeferredAuthorization>>,
}

impl PhpPrompt {
    pub(super) fn new(router: &Arc<MessageRouter>, has_callback: bool) -> Self {
        Self {
            router: Arc::clone(router),
            has_callback,
            deferred: Mutex::new(None),
        }
    }

    /// Returns the deferred authorization and removes it.
    pub fn take_deferred(&self) -> Option<DeferredAuthorization> {
        lock(&self.deferred).take()
    }
}

impl AuthorizationPrompt for PhpPrompt {
    fn authorize(&self, request: AuthorizationRequest) -> PromptFuture<'_> {
        Box::pin(async move {
            let url = request.url.into();
            if !self.has_callback {
                *lock(&self.deferred) = Some(DeferredAuthorization {
                    url,
                    scopes: request.scopes,
                    pending: request.pending,
                });
                return Err(PromptError::Deferred);
            }
            let (reply, answer) = ReplySender::new();
            self.router.enqueue(ServerJob::Authorize { url, reply });
            answer.await.unwrap_or(Err(PromptError::Abandoned))
        })
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic while the lock is held leaves a valid value behind.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
