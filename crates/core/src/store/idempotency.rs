use std::time::Duration;

use async_trait::async_trait;

use super::{StoreError, Timestamp};

/// What a caller names a request by, so that sending it twice runs it once.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct IdempotencyKey {
    /// Whose key it is: two callers may choose the same one.
    pub scope: String,
    /// The key, as the caller sent it.
    pub key: String,
}

/// What became of claiming a key.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeyClaim {
    /// It is the caller's: run the request, then record its result or release the key.
    Claimed,
    /// Another request has it and has not ended.
    InProgress {
        /// What the other request was, as it was claimed.
        fingerprint: String,
        /// When the claim is to end, or should have ended: whether the request still runs
        /// somebody else has to know.
        expires_at: Timestamp,
    },
    /// The request has run.
    Recorded {
        /// What the request was, as it was claimed.
        fingerprint: String,
        /// Its result, as it was recorded.
        result: String,
    },
}

/// How long a claim without a result stays when it has expired. No call runs for longer.
pub const UNFINISHED_KEYS_STAY: Duration = Duration::from_secs(2 * 24 * 60 * 60);

/// Keeps the results of requests that name themselves (`Idempotency-Key`).
#[async_trait]
pub trait IdempotencyStore: Send + Sync {
    /// Takes the key, if nobody has it. `fingerprint` stands for the request, so that the same
    /// key with another request is found out. A claim without a result stays `InProgress` for
    /// [`UNFINISHED_KEYS_STAY`] after it expires: its request may run for longer than that
    /// takes, or its process has died, and whether it ran is not known.
    ///
    /// # Errors
    /// Errors of the store.
    async fn claim_key(
        &self,
        key: &IdempotencyKey,
        fingerprint: &str,
        now: Timestamp,
        expires_at: Timestamp,
    ) -> Result<KeyClaim, StoreError>;

    /// Stores the result of the request that has the key.
    ///
    /// # Errors
    /// `not_found` when nobody has claimed it; `conflict` when there is a result.
    async fn record_key(&self, key: &IdempotencyKey, result: &str) -> Result<(), StoreError>;

    /// Gives up a claim whose request did not run; a key without one, or with a result, stays
    /// as it is.
    ///
    /// # Errors
    /// Errors of the store.
    async fn release_key(&self, key: &IdempotencyKey) -> Result<(), StoreError>;

    /// Returns the total size of the stored results of each scope, in bytes.
    ///
    /// # Errors
    /// Errors of the store.
    async fn key_bytes(&self) -> Result<Vec<(String, u64)>, StoreError>;

    /// Removes the results that expired at this moment or before, and the claims without one
    /// that did [`UNFINISHED_KEYS_STAY`] before; how many.
    ///
    /// # Errors
    /// Errors of the store.
    async fn remove_expired_keys(&self, now: Timestamp) -> Result<u64, StoreError>;
}
