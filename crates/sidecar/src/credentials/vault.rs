//! The vault's key, as the configuration has it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use pillion_core::store::{SecretKind, Store};
use pillion_store::Vault;

use super::CredentialError;
use crate::config::Config;

/// Where the next key is while the vault gets another one: beside the key, with `.new` at the
/// end of its name.
pub(crate) fn next_key_file(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(".new");
    name.into()
}

/// The vault, if the configuration has a key.
pub(crate) async fn open_vault(
    store: &Arc<dyn Store>,
    config: &Config,
) -> Result<Option<Arc<Vault>>, CredentialError> {
    match config.vault.key()? {
        None => Ok(None),
        Some(key) => {
            let vault = Vault::open(Arc::clone(store) as _, key).await?;
            // Reading them all is how one that the key does not open is found at start.
            vault.ids(SecretKind::Credential).await?;
            Ok(Some(Arc::new(vault)))
        }
    }
}
