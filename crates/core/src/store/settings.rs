use async_trait::async_trait;

use super::StoreError;

/// Stores small JSON values by key.
#[async_trait]
pub trait SettingsStore: Send + Sync {
    /// Returns the value of a key, as JSON.
    ///
    /// # Errors
    /// Errors of the store.
    async fn setting(&self, key: &str) -> Result<Option<String>, StoreError>;

    /// Stores a value, replacing the previous one.
    ///
    /// # Errors
    /// Errors of the store.
    async fn set_setting(&self, key: &str, json: &str) -> Result<(), StoreError>;

    /// Stores a value if the key has none. Of concurrent calls, the first wins.
    ///
    /// # Errors
    /// Errors of the store.
    async fn add_setting(&self, key: &str, json: &str) -> Result<(), StoreError>;

    /// Removes a value. Succeeds if there is none.
    ///
    /// # Errors
    /// Errors of the store.
    async fn remove_setting(&self, key: &str) -> Result<(), StoreError>;

    /// Returns all values, ordered by key.
    ///
    /// # Errors
    /// Errors of the store.
    async fn settings(&self) -> Result<Vec<(String, String)>, StoreError>;
}
