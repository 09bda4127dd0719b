//! The credentials in the vault, for MCP servers, providers and tools. An MCP server may have a
//! shared credential, credentials of individual users, and OAuth tokens of the server and of
//! individual users. Each credential is bound to the address for which it was set.

mod error;
mod server_credentials;
mod tokens;
mod user_credentials;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use pillion_config::Config;
use pillion_core::store::{SecretKind, Store};
use pillion_store::Vault;
use sha2::{Digest, Sha256};

pub use error::CredentialError;
pub use server_credentials::{CredentialMetadata, Credentials, take_secrets};
pub use tokens::Account;
pub use user_credentials::{UserCredential, UserCredentials, forget_server, format_identity};

/// Returns the path of the file that contains the vault's next key during a key rotation: the path
/// of the key file with the suffix `.new`.
pub fn next_key_file(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(".new");
    name.into()
}

/// Opens the vault, if a key is configured.
pub async fn open_vault(
    store: &Arc<dyn Store>,
    config: &Config,
) -> Result<Option<Arc<Vault>>, CredentialError> {
    let Some(key) = config.vault.key()? else {
        return Ok(None);
    };
    let vault = Vault::open(Arc::clone(store) as _, key).await?;
    // The IDs are read only to detect errors of the store at start-up; they are not used.
    vault.ids(SecretKind::Credential).await?;
    Ok(Some(Arc::new(vault)))
}

/// Returns the ID of a server in the configuration file, derived from the label of the server.
pub fn server_id_from_label(label: &str) -> String {
    let mut hash = Sha256::new();
    hash.update(b"pillion server of the configuration file\0");
    hash.update(label.as_bytes());
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&hash.finalize()[..16]);
    uuid::Builder::from_custom_bytes(bytes)
        .into_uuid()
        .to_string()
}

/// Returns the scheme, host and port of a URL.
pub fn url_origin(url: &url::Url) -> String {
    let (scheme, host) = (url.scheme(), url.host_str().unwrap_or_default());
    format!("{scheme}://{host}:{:?}", url.port_or_known_default())
}
