use async_trait::async_trait;

use super::StoreError;

/// Stores small JSON values by key.
#[async_trait]
pub trait SettingsStore: Send + Sync {
    /// Returns the value of a key, as JSON.
    ///
    /// # Errors
    /// The store cannot be read.
    async fn find_setting(&self, key: &str) -> Result<Option<String>, StoreError>;

    /// Stores a value, replacing the previous one.
    ///
    /// # Errors
    /// The store cannot be written.
    async fn set_setting(&self, key: &str, json: &str) -> Result<(), StoreError>;

    /// Stores a value if the key has none; an existing value stays unchanged. Of concurrent calls,
    /// the first one stores its value.
    ///
    /// # Errors
    /// The store cannot be written.
    async fn add_setting(&self, key: &str, json: &str) -> Result<(), StoreError>;

    /// Removes a value. Succeeds if there is none.
    ///
    /// # Errors
    /// The store cannot be written.
    async fn remove_setting(&self, key: &str) -> Result<(), StoreError>;

    /// Returns all values, ordered by key.
    ///
    /// # Errors
    /// The store cannot be read.
    async fn settings(&self) -> Result<Vec<(String, String)>, StoreError>;
}
