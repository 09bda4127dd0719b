use async_trait::async_trait;

use super::StoreError;

/// Keeps small values of JSON by key.
#[async_trait]
pub trait SettingsStore: Send + Sync {
    /// The value of that key, as JSON.
    ///
    /// # Errors
    /// Only those of the store itself.
    async fn setting(&self, key: &str) -> Result<Option<String>, StoreError>;

    /// Puts a value in the place of the one before.
    ///
    /// # Errors
    /// Only those of the store itself.
    async fn set_setting(&self, key: &str, json: &str) -> Result<(), StoreError>;

    /// Puts a value where there is none, however many do so at once: the first one stays.
    ///
    /// # Errors
    /// Only those of the store itself.
    async fn add_setting(&self, key: &str, json: &str) -> Result<(), StoreError>;

    /// Removes a value; having none is no error.
    ///
    /// # Errors
    /// Only those of the store itself.
    async fn remove_setting(&self, key: &str) -> Result<(), StoreError>;

    /// All values, by key.
    ///
    /// # Errors
    /// Only those of the store itself.
    async fn settings(&self) -> Result<Vec<(String, String)>, StoreError>;
}
