//! What tells one store from another, however each process names it.

use pillion_core::store::{SettingsStore, StoreError};
use uuid::Uuid;

/// The setting that has it, as a JSON string.
const SETTING: &str = "store.id";

/// The id of a store, if it has been given one.
///
/// # Errors
/// Only those of the store itself.
pub(crate) async fn of(store: &impl SettingsStore) -> Result<Option<String>, StoreError> {
    let json = store.setting(SETTING).await?;
    Ok(json.and_then(|json| serde_json::from_str(&json).ok()))
}

/// The id of a store, which is given one if it has none.
///
/// # Errors
/// Only those of the store itself.
pub(super) async fn of_or_new(store: &impl SettingsStore) -> Result<Option<String>, StoreError> {
    if let Some(id) = of(store).await? {
        return Ok(Some(id));
    }
    let json = serde_json::Value::from(Uuid::new_v4().to_string()).to_string();
    store.add_setting(SETTING, &json).await?;
    // Another process may have given it one at the same moment.
    of(store).await
}
