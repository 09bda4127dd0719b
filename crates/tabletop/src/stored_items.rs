use std::sync::Arc;

use async_trait::async_trait;
use pillion_core::pack::{StoredItem, StoredItems};
use pillion_core::store::StoreError;
use serde_json::Value;

use crate::orchestrator::Orchestrator;
use crate::scenes::Scenes;
use crate::timestamp::format_timestamp;

/// The scenes as stored items, with the number of all messages that were ever added (`messages`)
/// and the time of the last message (`last_message_at`).
pub(crate) struct StoredScenes {
    scenes: Arc<Scenes>,
    orchestrator: Arc<Orchestrator>,
}

/// The characters as stored items, with their `description`.
pub(crate) struct StoredCharacters(Arc<Scenes>);

/// Returns the stored items of the pack: scenes and characters.
pub(crate) fn create_stored_items(
    scenes: &Arc<Scenes>,
    orchestrator: &Arc<Orchestrator>,
) -> Vec<Arc<dyn StoredItems>> {
    let stored_scenes = StoredScenes {
        scenes: Arc::clone(scenes),
        orchestrator: Arc::clone(orchestrator),
    };
    vec![
        Arc::new(stored_scenes),
        Arc::new(StoredCharacters(Arc::clone(scenes))),
    ]
}

#[async_trait]
impl StoredItems for StoredScenes {
    fn kind(&self) -> &str {
        "scenes"
    }

    fn max_items(&self) -> Option<u32> {
        Some(self.scenes.limits().max_scenes)
    }

    async fn count(&self) -> Result<u64, StoreError> {
        self.scenes.count().await
    }

    async fn list(&self, after: Option<&str>, limit: u32) -> Result<Vec<StoredItem>, StoreError> {
        let scenes = self.scenes.list_scenes_by_name(after, limit).await?;
        let items = scenes.into_iter().map(|(scene, latest)| {
            StoredItem::new(scene)
                .with_fact("messages", latest.number)
                .with_fact("last_message_at", format_timestamp(latest.added_at))
        });
        Ok(items.collect())
    }

    async fn remove(&self, name: &str) -> Result<bool, StoreError> {
        let is_removed = self.scenes.remove(name).await?;
        if is_removed {
            self.orchestrator.forget(name);
            self.scenes.notify_changed(name, true);
        }
        Ok(is_removed)
    }
}

#[async_trait]
impl StoredItems for StoredCharacters {
    fn kind(&self) -> &str {
        "characters"
    }

    fn max_items(&self) -> Option<u32> {
        Some(self.0.limits().max_characters)
    }

    async fn count(&self) -> Result<u64, StoreError> {
        self.0.count_characters().await
    }

    async fn list(&self, after: Option<&str>, limit: u32) -> Result<Vec<StoredItem>, StoreError> {
        let characters = self.0.list_characters_by_name(after, limit).await?;
        let items = characters.into_iter().map(|(name, json)| {
            // A character whose document is unreadable is still listed, so that a client
            // can remove the character.
            let mut character: Value = serde_json::from_str(&json).unwrap_or_default();
            let description = character.get_mut("description").map(Value::take);
            StoredItem::new(name).with_fact("description", description.unwrap_or_default())
        });
        Ok(items.collect())
    }

    async fn remove(&self, name: &str) -> Result<bool, StoreError> {
        self.0.remove_character(name).await
    }
}
