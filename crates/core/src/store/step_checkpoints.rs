use async_trait::async_trait;

use super::{StoreError, Timestamp};

/// The checkpoint store of composed tools: stores the results of finished steps while another step
/// waits for an approval ([`CheckpointStore`](crate::compose::CheckpointStore)).
#[async_trait]
pub trait StepCheckpointStore: Send + Sync {
    /// Stores a checkpoint until `expires_at`, replacing any other with this key.
    ///
    /// # Errors
    /// The store cannot be written.
    async fn save_step_checkpoint(
        &self,
        key: &str,
        json: &str,
        expires_at: Timestamp,
    ) -> Result<(), StoreError>;

    /// Removes and returns a checkpoint; `None` if the key has no checkpoint or the checkpoint has
    /// expired. Of concurrent callers, only one gets the checkpoint.
    ///
    /// # Errors
    /// The store cannot be read or written.
    async fn take_step_checkpoint(
        &self,
        key: &str,
        now: Timestamp,
    ) -> Result<Option<String>, StoreError>;

    /// Removes the checkpoints that expired by `now`, and returns their number.
    ///
    /// # Errors
    /// The store cannot be written.
    async fn remove_expired_step_checkpoints(&self, now: Timestamp) -> Result<u64, StoreError>;
}
