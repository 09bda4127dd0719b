//! API keys in the vault, for the routes of the keys of providers and of tools.

use std::sync::Arc;

use pillion_core::store::SecretKind;
use pillion_store::Vault;
use pillion_wire::ProviderKeyInput;
use secrecy::SecretString;

use crate::app::App;
use pillion_gateway::credentials::CredentialError;
use pillion_management::error::{RequestError, Result};

/// Maximum length of a key, in bytes.
const MAX_KEY_BYTES: usize = 4096;

/// Returns the IDs of the stored API keys of one kind, such as the keys of providers; empty if the
/// sidecar has no vault.
pub(super) async fn list_keys(app: &App, kind: SecretKind) -> Result<Vec<String>, CredentialError> {
    match vault(app) {
        Ok(vault) => Ok(vault.ids(kind).await?),
        Err(_) => Ok(Vec::new()),
    }
}

/// Checks a key and stores it under this ID, in place of a previous key.
pub(super) async fn store_key(
    app: &App,
    kind: SecretKind,
    id: &str,
    input: &ProviderKeyInput,
) -> Result<()> {
    let key = parse_key(input)?;
    let put_outcome = vault(app)?.put(kind, id, &key).await;
    Ok(put_outcome.map_err(CredentialError::from)?)
}

/// Removes the key with this ID.
pub(super) async fn remove_key(
    app: &App,
    kind: SecretKind,
    id: &str,
) -> Result<(), CredentialError> {
    vault(app)?.remove(kind, id).await?;
    Ok(())
}

fn parse_key(input: &ProviderKeyInput) -> Result<SecretString> {
    let key = input.key.trim();
    let is_valid = !key.is_empty()
        && key.len() <= MAX_KEY_BYTES
        // Every provider receives the key in a header, so it must be a valid header value.
        && key.bytes().all(|byte| byte.is_ascii_graphic());
    if !is_valid {
        let expected = format!("1 to {MAX_KEY_BYTES} visible ASCII characters");
        return Err(RequestError::invalid_parameter("key", expected));
    }
    Ok(key.into())
}

/// Returns the vault.
///
/// # Errors
/// [`CredentialError::NoKey`]: the vault has no encryption key.
pub(super) fn vault(app: &App) -> Result<Arc<Vault>, CredentialError> {
    let servers = app.servers();
    let vault = servers.and_then(|servers| servers.user_credentials().vault());
    vault.ok_or(CredentialError::NoKey)
}
