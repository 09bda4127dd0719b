use std::sync::Arc;
use std::time::Duration;

use pillion_core::RepeatLimit;
use pillion_core::compose::{
    CheckpointSaveFuture, CheckpointStore, CheckpointTakeFuture, MemoryCheckpoints, StepCheckpoint,
};
use pillion_core::store::{Store, StoreError, Timestamp};
use pillion_core::tool::{ErrorCode, ToolFailure};

/// Stores the finished steps of calls that wait for approval, as long as an approval is valid, so
/// that the steps survive a restart.
pub struct StepCheckpoints {
    store: Arc<dyn Store>,
    ttl: Duration,
}

impl StepCheckpoints {
    /// Creates a checkpoint store in `store`, or in memory without a store.
    pub fn for_store(store: Option<Arc<dyn Store>>, ttl: Duration) -> Arc<dyn CheckpointStore> {
        match store {
            Some(store) => Arc::new(Self { store, ttl }),
            None => Arc::new(MemoryCheckpoints::new(ttl)),
        }
    }
}

impl CheckpointStore for StepCheckpoints {
    fn take(&self, key: String) -> CheckpointTakeFuture {
        let store = Arc::clone(&self.store);
        Box::pin(async move {
            let result = store.take_step_checkpoint(&key, Timestamp::now()).await;
            let Some(json) = result.map_err(|error| to_store_failure(&error))? else {
                return Ok(None);
            };
            let checkpoint: Result<StepCheckpoint, _> = serde_json::from_str(&json);
            let to_failure =
                |_| ToolFailure::internal("The stored steps of the composed tool cannot be read");
            checkpoint.map(Some).map_err(to_failure)
        })
    }

    fn save(&self, key: String, checkpoint: StepCheckpoint) -> CheckpointSaveFuture {
        let store = Arc::clone(&self.store);
        let expires_at = Timestamp::now().plus(self.ttl);
        Box::pin(async move {
            let to_failure = |error: serde_json::Error| {
                let message = format!("Cannot serialize the finished steps: {error}");
                ToolFailure::internal(message)
            };
            let json = serde_json::to_string(&checkpoint).map_err(to_failure)?;
            let result = store.save_step_checkpoint(&key, &json, expires_at).await;
            result.map_err(|error| to_store_failure(&error))
        })
    }
}

fn to_store_failure(error: &StoreError) -> ToolFailure {
    static FAILURE_LOG_LIMIT: RepeatLimit = RepeatLimit::new();
    if let Some(repeated) = FAILURE_LOG_LIMIT.record_failure() {
        tracing::warn!(%error, repeated, "Cannot read or write the stored steps of a composed tool");
    }
    ToolFailure::new(
        ErrorCode::Unavailable,
        "The stored steps of the composed tool cannot be read or written: the store failed",
    )
}
