//! The ID of a store, which is independent of the location under which a process opens the store.

use pillion_core::store::{SettingsStore, StoreError};
use uuid::Uuid;

/// The store's setting that holds the ID, as a JSON string.
const STORE_ID_SETTING: &str = "store.id";

/// Returns the store's ID, or `None` if the store has none.
///
/// # Errors
/// Fails only if the store cannot be read.
pub async fn read(store: &impl SettingsStore) -> Result<Option<String>, StoreError> {
    let json = store.find_setting(STORE_ID_SETTING).await?;
    Ok(json.and_then(|json| serde_json::from_str(&json).ok()))
}

/// Returns the store's ID, and creates one if there is none.
///
/// # Errors
/// Fails only if the store cannot be read or written.
pub(super) async fn load_or_create(
    store: &impl SettingsStore,
) -> Result<Option<String>, StoreError> {
    if let Some(id) = read(store).await? {
        return Ok(Some(id));
    }
    let json = serde_json::Value::from(Uuid::new_v4().to_string()).to_string();
    store.add_setting(STORE_ID_SETTING, &json).await?;
    // The stored ID is read again, because another process may have created an ID at the same time.
    read(store).await
}
