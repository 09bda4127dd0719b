use std::path::PathBuf;

use pillion_store::{MasterKey, MasterKeyError};
use serde::Deserialize;

/// `[vault]`: the key that encrypts credentials in the store. Without a key, the store keeps no
/// credentials.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct VaultSection {
    /// A file of mode 0600 with the key of [stored credentials](../how-to/store-credentials.md): 32
    /// bytes, raw or in Base64.
    pub key_file: Option<PathBuf>,
    /// The name of an environment variable that contains the key in Base64.
    pub key_env: Option<String>,
}

impl VaultSection {
    /// Returns whether the configuration names a source of the key.
    pub(super) fn has_key_source(&self) -> bool {
        self.key_file.is_some() || self.key_env.is_some()
    }

    /// Reads the vault's key, if the configuration names a source.
    pub fn key(&self) -> Result<Option<MasterKey>, MasterKeyError> {
        match (&self.key_file, &self.key_env) {
            (Some(path), _) => MasterKey::from_file(path).map(Some),
            (None, Some(name)) => MasterKey::from_environment(name).map(Some),
            (None, None) => Ok(None),
        }
    }

    /// Returns the first key that is inconsistent with another key, and the error message.
    pub(super) fn find_fault(&self) -> Option<(&'static str, &'static str)> {
        let has_both_sources = self.key_file.is_some() && self.key_env.is_some();
        has_both_sources.then_some((
            "key_env",
            "vault.key_file is also set: set only one of the two",
        ))
    }
}
