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
    /// The call that ran the steps, as its id in the call log.
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
/// waits for an approval. A call that is repeated after the decision continues there, without
/// repeating finished steps.
///
/// `key` identifies the declaration of the composed tool, the arguments and the caller.
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
    stored: Mutex<HashMap<String, (Instant, StepCheckpoint)>>,
}

/// Maximum number of checkpoints.
const MAX_CHECKPOINTS: usize = 1_000;

impl MemoryCheckpoints {
    /// Creates a store whose checkpoints expire after `ttl`.
    #[must_use]
    pub fn new(ttl: Duration) -> Self {
        Self {
            ttl,
            stored: Mutex::default(),
        }
    }
}

impl CheckpointStore for MemoryCheckpoints {
    fn take(&self, key: String) -> CheckpointTakeFuture {
        let stored = self.stored.lock().remove(&key);
        let checkpoint = stored
            .filter(|(at, _)| at.elapsed() < self.ttl)
            .map(|(_, checkpoint)| checkpoint);
        Box::pin(async move { Ok(checkpoint) })
    }

    fn save(&self, key: String, checkpoint: StepCheckpoint) -> CheckpointSaveFuture {
        let mut stored = self.stored.lock();
        stored.retain(|_, (at, _)| at.elapsed() < self.ttl);
        let has_room = stored.len() < MAX_CHECKPOINTS;
        if has_room {
            stored.insert(key, (Instant::now(), checkpoint));
        }
        Box::pin(async move {
            let full = || {
                ToolFailure::new(
                    ErrorCode::Unavailable,
                    "Too many composed calls wait for an approval",
                )
            };
            has_room.then_some(()).ok_or_else(full)
        })
    }
}
