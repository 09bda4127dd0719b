use ext_php_rs::types::Zval;
use pillion_mcp_client::{OAuthCredentials, PendingAuthorization, TokenKey};
use serde_json::json;

use super::hooks::{Hooks, TOKEN_STORE};
use super::server::{Server, redact_message};
use super::store_key::store_key;
use super::token_slot::TokenSlot;
use crate::exception;
use crate::json::{EmptyObject, decode, to_value};
use crate::zend::{Object, Result, new_string};

/// The tokens that a `TokenStore` returned.
pub struct StoredOAuthTokens {
    pub credentials: OAuthCredentials,
    /// The JSON text of the credentials.
    pub json: String,
}

/// Loads the OAuth tokens from the object's `TokenStore`, if it has one.
///
/// # Errors
/// An exception of the store. An `InvalidInputException` if the store returns a value that is not a
/// valid entry.
pub fn load(hooks: Hooks<'_>, server: &Server) -> Result<Option<StoredOAuthTokens>> {
    let store_value = hooks.get(TOKEN_STORE);
    let Some(store) = store_value.as_ref().and_then(Object::from_value) else {
        return Ok(None);
    };
    let entry = store.call("load", [new_string(token_key(server))])?;
    if entry.is_null() {
        return Ok(None);
    }
    let invalid_entry = |reason: &dyn std::fmt::Display| {
        exception::invalid_input(format!(
            "{}::load() returned no valid tokens: {reason}",
            store.class_name()
        ))
    };
    let mut value = to_value(&entry)?;
    // An empty list is accepted as an empty map, because PHP encodes an empty map as `[]`.
    if let Some(registrations) = value.get_mut("registrations")
        && *registrations == json!([])
    {
        *registrations = json!({});
    }
    let credentials: OAuthCredentials = serde_json::from_value(value)
        .map_err(|error| invalid_entry(&redact_message(true, &error.to_string())))?;
    let json = serde_json::to_string(&credentials).map_err(|error| invalid_entry(&error))?;
    Ok(Some(StoredOAuthTokens { credentials, json }))
}

/// Saves changed OAuth tokens in the object's `TokenStore`, and returns the tokens as JSON.
///
/// # Errors
/// An exception of the store. If the store fails, the tokens are saved after the next call.
pub fn store(hooks: Hooks<'_>, server: &Server, slot: &TokenSlot) -> Result<Option<String>> {
    let Some(change) = slot.take_change() else {
        return Ok(None);
    };
    let credentials_json = change
        .as_ref()
        .and_then(|credentials| serde_json::to_string(credentials).ok());
    let store_value = hooks.get(TOKEN_STORE);
    let Some(store) = store_value.as_ref().and_then(Object::from_value) else {
        return Ok(credentials_json);
    };
    let entry = match &credentials_json {
        Some(credentials_json) => decode(credentials_json, EmptyObject::Array)?.unwrap_or_default(),
        None => Zval::new(),
    };
    if let Err(failure) = store.call("save", [new_string(token_key(server)), entry]) {
        slot.mark_changed();
        return Err(failure);
    }
    Ok(credentials_json)
}

/// Returns the key of a server's tokens in a `TokenStore`: letters, digits and `_`, at most 64
/// characters.
fn token_key(server: &Server) -> String {
    let identity = match (server.config().url(), server.oauth()) {
        (Some(url), Some(oauth)) => {
            let key = TokenKey::new(url, oauth);
            format!("{}\0{}", key.server, key.client)
        }
        _ => String::new(),
    };
    store_key("tokens", &identity)
}

/// Saves a pending authorization in the `TokenStore` until the browser is redirected back.
///
/// # Errors
/// An exception of the token store.
pub fn save_pending(hooks: Hooks<'_>, pending_authorization: &PendingAuthorization) -> Result<()> {
    let json = serde_json::to_string(pending_authorization).unwrap_or_default();
    let entry = decode(&json, EmptyObject::Array)?.unwrap_or_default();
    save(hooks, &pending_key(&pending_authorization.state), entry)
}

/// Removes the pending authorization with this OAuth `state` from the `TokenStore`, and returns the
/// authorization, so that the authorization can be completed only once.
///
/// # Errors
/// An exception of the token store.
pub fn take_pending(hooks: Hooks<'_>, state: &str) -> Result<Option<PendingAuthorization>> {
    let key = pending_key(state);
    let store_value = hooks.get(TOKEN_STORE);
    let Some(store) = store_value.as_ref().and_then(Object::from_value) else {
        return Ok(None);
    };
    let entry = store.call("load", [new_string(&key)])?;
    if entry.is_null() {
        return Ok(None);
    }
    save(hooks, &key, Zval::new())?;
    Ok(serde_json::from_value(to_value(&entry)?).ok())
}

fn save(hooks: Hooks<'_>, key: &str, entry: Zval) -> Result<()> {
    let store_value = hooks.get(TOKEN_STORE);
    if let Some(store) = store_value.as_ref().and_then(Object::from_value) {
        store.call("save", [new_string(key), entry])?;
    }
    Ok(())
}

fn pending_key(state: &str) -> String {
    store_key("pending", state)
}
