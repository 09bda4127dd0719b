use async_trait::async_trait;

use super::{StoreError, Timestamp};

/// Keeps what the finished steps of a composed tool came to while another step waits for an
/// approval ([`StepKeeper`](crate::compose::StepKeeper)).
#[async_trait]
pub trait KeptStepsStore: Send + Sync {
    /// Keeps something until then, in the place of what was there.
    ///
    /// # Errors
    /// Errors of the store.
    async fn keep_steps(
        &self,
        key: &str,
        json: &str,
        expires_at: Timestamp,
    ) -> Result<(), StoreError>;

    /// Takes what is kept, so that nobody else gets it; none where that is nothing, or has
    /// expired.
    ///
    /// # Errors
    /// Errors of the store.
    async fn take_steps(&self, key: &str, now: Timestamp) -> Result<Option<String>, StoreError>;

    /// Removes what expired at this moment or before; how many.
    ///
    /// # Errors
    /// Errors of the store.
    async fn remove_expired_steps(&self, now: Timestamp) -> Result<u64, StoreError>;
}
