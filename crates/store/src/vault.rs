//! Stores secrets, encrypted at rest with XChaCha20-Poly1305 under a key that is not in the store.

mod error;
mod key;
mod seal;

use std::fmt;
use std::sync::Arc;

use pillion_core::store::{SecretId, SecretKind, SecretReplacement, SecretStore, StoreError};
use secrecy::SecretString;
use tokio::sync::RwLock;

pub use error::VaultError;
pub use key::{MasterKey, MasterKeyError};

/// The plaintext of the check value: a stored value with which the vault verifies the key.
const CHECK_PLAINTEXT: &str = "pillion";
/// Maximum number of attempts of a rotation while other processes change secrets.
const MAX_ROTATION_ATTEMPTS: usize = 5;

/// Stores secrets in a store that receives only ciphertext.
///
/// Each ciphertext is valid only for the kind and ID of its secret, so that an attacker with write
/// access to the store cannot use the secret of one server for another server. Such an attacker can
/// still restore an older secret of the same kind and ID, or remove the secret.
///
/// ```
/// use std::sync::Arc;
/// use pillion_core::store::SecretKind;
/// use pillion_store::{MasterKey, SqlStore, StoreLocation, StoreOptions, Vault};
/// use secrecy::ExposeSecret;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let store = SqlStore::open(&StoreOptions::new(StoreLocation::Memory)).await?;
/// let vault = Vault::open(Arc::new(store), MasterKey::generate()).await?;
/// vault.put(SecretKind::Credential, "weather", &"s3cret".into()).await?;
/// let secret = vault.get(SecretKind::Credential, "weather").await?;
/// assert_eq!(secret.unwrap().expose_secret(), "s3cret");
/// # Ok(())
/// # }
/// ```
pub struct Vault {
    store: Arc<dyn SecretStore>,
    /// Each use of the key locks the key for reading, and a rotation locks it for writing.
    key: RwLock<MasterKey>,
}

impl Vault {
    /// Opens the vault of a store. If the store has no key yet, the key becomes the key of the
    /// store.
    ///
    /// # Errors
    /// [`VaultError::WrongKey`] if the store is encrypted with another key; [`VaultError::Store`]
    /// if the store cannot be read or written.
    pub async fn open(store: Arc<dyn SecretStore>, key: MasterKey) -> Result<Self, VaultError> {
        let secret_id = build_check_value_id();
        if store.find_secret(&secret_id).await?.is_none() {
            if !store.secrets().await?.is_empty() {
                return Err(VaultError::MissingCheckValue);
            }
            let sealed_check = key.seal(&secret_id, &CHECK_PLAINTEXT.into())?;
            store.put_secret(&secret_id, &sealed_check).await?;
        }
        // The check value is read again, because another process may have set another key at the
        // same time.
        let Some(check_value) = store.find_secret(&secret_id).await? else {
            return Err(VaultError::MissingCheckValue);
        };
        key.open(&secret_id, &check_value)?;
        Ok(Self {
            store,
            key: RwLock::new(key),
        })
    }

    /// Stores a secret, and replaces the previous secret of this kind and ID.
    ///
    /// # Errors
    /// [`VaultError::Store`] if the secret could not be stored.
    pub async fn put(
        &self,
        kind: SecretKind,
        id: &str,
        secret: &SecretString,
    ) -> Result<(), VaultError> {
        let secret_id = secret_id(kind, id);
        let key = self.key.read().await;
        let sealed_secret = key.seal(&secret_id, secret)?;
        Ok(self.store.put_secret(&secret_id, &sealed_secret).await?)
    }

    /// Returns the secret of this kind and ID, if there is one.
    ///
    /// # Errors
    /// [`VaultError::WrongKey`] if another process has changed the key; [`VaultError::Damaged`] if
    /// the stored value was modified or moved.
    pub async fn get(
        &self,
        kind: SecretKind,
        id: &str,
    ) -> Result<Option<SecretString>, VaultError> {
        let secret_id = secret_id(kind, id);
        let key = self.key.read().await;
        match self.store.find_secret(&secret_id).await? {
            Some(sealed_secret) => key.open(&secret_id, &sealed_secret).map(Some),
            None => Ok(None),
        }
    }

    /// Removes a secret; succeeds if there is none.
    ///
    /// # Errors
    /// The store cannot be read or written.
    pub async fn remove(&self, kind: SecretKind, id: &str) -> Result<(), VaultError> {
        Ok(self.store.remove_secret(&secret_id(kind, id)).await?)
    }

    /// Returns the IDs of all secrets of a kind, sorted.
    ///
    /// # Errors
    /// The store cannot be read or written.
    pub async fn ids(&self, kind: SecretKind) -> Result<Vec<String>, VaultError> {
        let mut ids: Vec<String> = self
            .store
            .secrets()
            .await?
            .into_iter()
            .map(|(secret_id, _)| secret_id)
            .filter(|secret_id| secret_id.kind == kind)
            .map(|secret_id| secret_id.id)
            .collect();
        ids.sort();
        Ok(ids)
    }

    /// Re-encrypts all secrets with a new key, atomically, and returns the number of secrets. After
    /// the rotation, only the new key opens the store.
    ///
    /// # Errors
    /// [`VaultError::Damaged`] if a secret cannot be read; [`VaultError::Store`] if the store fails
    /// or other processes keep changing secrets. After an error, nothing has changed.
    pub async fn rotate(&self, new_key: MasterKey) -> Result<usize, VaultError> {
        let mut key = self.key.write().await;
        for _ in 0..MAX_ROTATION_ATTEMPTS {
            let mut replacements = Vec::new();
            for (secret_id, old_secret) in self.store.secrets().await? {
                let secret = key.open(&secret_id, &old_secret)?;
                replacements.push(SecretReplacement {
                    new_secret: new_key.seal(&secret_id, &secret)?,
                    secret_id,
                    old_secret,
                });
            }
            match self.store.replace_secrets(&replacements).await {
                Ok(()) => {
                    *key = new_key;
                    let is_user_secret = |replacement: &&SecretReplacement| {
                        replacement.secret_id.kind != SecretKind::KeyCheck
                    };
                    return Ok(replacements.iter().filter(is_user_secret).count());
                }
                Err(error) if error.is_conflict() => {}
                Err(error) => return Err(error.into()),
            }
        }
        let message =
            "the key was not replaced because other processes keep changing the secrets: try again";
        Err(StoreError::unavailable(message).into())
    }
}

impl fmt::Debug for Vault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Vault").finish_non_exhaustive()
    }
}

fn secret_id(kind: SecretKind, id: &str) -> SecretId {
    SecretId {
        kind,
        id: id.to_owned(),
    }
}

fn build_check_value_id() -> SecretId {
    secret_id(SecretKind::KeyCheck, "key")
}
