use async_trait::async_trait;

use super::StoreError;

/// Keeps small values of JSON by key.
#[async_trait]
pub trait SettingsStore: Send + Sync {
    /// The value of that key, as JSON.
    ///
    /// # Errors
    /// Errors of the store.
    async fn setting(&self, key: &str) -> Result<Option<String>, StoreError>;

    /// Puts a value in the place of the one before.
    ///
    /// # Errors
    /// Errors of the store.
    async fn set_setting(&self, key: &str, json: &str) -> Result<(), StoreError>;

    /// Puts a value where there is none, however many do so at once: the first one stays.
    ///
    /// # Errors
    /// Errors of the store.
    async fn add_setting(&self, key: &str, json: &str) -> Result<(), StoreError>;

    /// Removes a value; having none is no error.
    ///
    /// # Errors
    /// Errors of the store.
    async fn remove_setting(&self, key: &str) -> Result<(), StoreError>;

    /// All values, by key.
    ///
    /// # Errors
    /// Errors of the store.
    async fn settings(&self) -> Result<Vec<(String, String)>, StoreError>;
}
