use ext_php_rs::types::Zval;
use pillion_mcp_client::{OAuthCredentials, PendingAuthorization, TokenKey};
use serde_json::json;

use super::hooks::{Hooks, TOKENS};
use super::server::{Server, without_value};
use super::store_key::store_key;
use super::token_slot::TokenSlot;
use crate::exception;
use crate::json::{EmptyObject, decode, to_value};
use crate::zend::{Failure, Object, string_of};

/// The tokens that a `TokenStore` returned.
pub struct StoredOAuthTokens {
    pub credentials: OAuthCredentials,
    /// The credentials as JSON.
    pub text: String,
}

/// Loads the OAuth tokens from the object's `TokenStore`, if it has one.
///
/// # Errors
/// An exception of the store. An `InvalidInputException` if the store returns a value that is not a
/// valid entry.
pub fn load(hooks: Hooks<'_>, server: &Server) -> Result<Option<StoredOAuthTokens>, Failure> {
    let store = hooks.get(TOKENS);
    let Some(store) = store.as_ref().and_then(Object::from_value) else {
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

/// Saves changed OAuth tokens in the object's `TokenStore`, and returns the tokens as JSON.
///
/// # Errors
/// An exception of the store. The tokens are then saved again after the next call.
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
    let Some(store) = found.as_ref().and_then(Object::from_value) else {
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

/// Returns the key of a server's tokens in a `TokenStore`: letters, digits and `_`, at most 64
/// characters.
fn key(server: &Server) -> String {
    let identity = match (server.config().url(), server.oauth()) {
        (Some(url), Some(oauth)) => {
            let key = TokenKey::new(url, oauth);
            format!("{}\0{}", key.server, key.client)
        }
        _ => String::new(),
    };
    store_key("tokens", &identity)
}

/// Saves a pending authorization in the `TokenStore` until the browser returns.
///
/// # Errors
/// An exception of the token store.
pub fn save_pending(hooks: Hooks<'_>, pending: &PendingAuthorization) -> Result<(), Failure> {
    let text = serde_json::to_string(pending).unwrap_or_default();
    let entry = decode(&text, EmptyObject::Array)?.unwrap_or_default();
    save(hooks, &pending_key(&pending.state), entry)
}

/// Removes the pending authorization with this state from the `TokenStore` and returns it, so that
/// it can be used only once.
///
/// # Errors
/// An exception of the token store.
pub fn take_pending(
    hooks: Hooks<'_>,
    state: &str,
) -> Result<Option<PendingAuthorization>, Failure> {
    let key = pending_key(state);
    let store = hooks.get(TOKENS);
    let Some(store) = store.as_ref().and_then(Object::from_value) else {
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
    if let Some(store) = store.as_ref().and_then(Object::from_value) {
        store.call("save", [string_of(key), entry])?;
    }
    Ok(())
}

fn pending_key(state: &str) -> String {
    store_key("pending", state)
}
