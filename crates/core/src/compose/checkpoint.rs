use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::tool::{ErrorCode, JsonObject, ToolFailure};

/// The checkpoint of a composed tool that waits for an approval.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct StepCheckpoint {
    /// The ID, in the call log, of the call that ran the steps.
    pub call: Option<String>,
    /// The result of each finished step, by the step's name.
    pub steps: JsonObject,
}

/// The return type of [`CheckpointStore::take`].
pub type CheckpointTakeFuture =
    Pin<Box<dyn Future<Output = Result<Option<StepCheckpoint>, ToolFailure>> + Send>>;

/// The return type of [`CheckpointStore::save`].
pub type CheckpointSaveFuture = Pin<Box<dyn Future<Output = Result<(), ToolFailure>> + Send>>;

/// The checkpoint store of composed tools: stores the results of finished steps while another step
/// waits for an approval. A call that is repeated after the decision continues from the checkpoint,
/// without repeating finished steps.
///
/// The `key` of a checkpoint identifies the declaration of the composed tool, the arguments and the
/// caller.
pub trait CheckpointStore: Send + Sync + 'static {
    /// Removes and returns the checkpoint of a key; `None` if the key has no checkpoint or the
    /// checkpoint has expired. Of concurrent callers, only one gets the checkpoint. If the removal
    /// fails, no step runs.
    fn take(&self, key: String) -> CheckpointTakeFuture;

    /// Stores a checkpoint, replacing any other with this key.
    fn save(&self, key: String, checkpoint: StepCheckpoint) -> CheckpointSaveFuture;
}

/// A checkpoint store in memory.
pub struct MemoryCheckpoints {
    ttl: Duration,
    checkpoints: Mutex<HashMap<String, (Instant, StepCheckpoint)>>,
}

/// Maximum number of checkpoints in memory. Further checkpoints are rejected.
const MAX_CHECKPOINTS: usize = 1_000;

impl MemoryCheckpoints {
    /// Creates a store whose checkpoints expire after `ttl`.
    #[must_use]
    pub fn new(ttl: Duration) -> Self {
        Self {
            ttl,
            checkpoints: Mutex::default(),
        }
    }
}

impl CheckpointStore for MemoryCheckpoints {
    fn take(&self, key: String) -> CheckpointTakeFuture {
        let removed_entry = self.checkpoints.lock().remove(&key);
        let checkpoint = removed_entry
            .filter(|(saved_at, _)| saved_at.elapsed() < self.ttl)
            .map(|(_, checkpoint)| checkpoint);
        Box::pin(async move { Ok(checkpoint) })
    }

    fn save(&self, key: String, checkpoint: StepCheckpoint) -> CheckpointSaveFuture {
        let mut checkpoints = self.checkpoints.lock();
        checkpoints.retain(|_, (saved_at, _)| saved_at.elapsed() < self.ttl);
        let has_room = checkpoints.len() < MAX_CHECKPOINTS || checkpoints.contains_key(&key);
        if has_room {
            checkpoints.insert(key, (Instant::now(), checkpoint));
        }
        Box::pin(async move {
            let store_full = || {
                let message = format!(
                    "{MAX_CHECKPOINTS} composed calls already wait for an approval, which is the \
                     maximum: decide on an approval, then repeat the call"
                );
                ToolFailure::new(ErrorCode::Unavailable, message)
            };
            has_room.then_some(()).ok_or_else(store_full)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_full_store_still_replaces_a_checkpoint() {
        let checkpoints = MemoryCheckpoints::new(Duration::from_secs(60));
        let save = |key: usize| checkpoints.save(key.to_string(), StepCheckpoint::default());
        for key in 0..MAX_CHECKPOINTS {
            save(key).await.unwrap();
        }
        assert!(save(MAX_CHECKPOINTS).await.is_err());
        save(0).await.unwrap();
    }
}
