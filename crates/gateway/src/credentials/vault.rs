//! Opens the vault with the configured key.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use pillion_core::store::{SecretKind, Store};
use pillion_store::Vault;

use super::CredentialError;
use pillion_config::Config;

/// Returns the path of the next key while the key of the vault is being changed: the key file's
/// path with the suffix `.new`.
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
    match config.vault.key()? {
        None => Ok(None),
        Some(key) => {
            let vault = Vault::open(Arc::clone(store) as _, key).await?;
            // Fails if the store cannot be read, so that the error appears at start-up.
            vault.ids(SecretKind::Credential).await?;
            Ok(Some(Arc::new(vault)))
        }
    }
}
