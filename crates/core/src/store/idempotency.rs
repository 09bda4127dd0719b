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
    },
    /// The request has run.
    Recorded {
        /// What the request was, as it was claimed.
        fingerprint: String,
        /// Its result, as it was recorded.
        result: String,
    },
}

/// Keeps the results of requests that name themselves (`Idempotency-Key`).
#[async_trait]
pub trait IdempotencyStore: Send + Sync {
    /// Takes the key, if nobody has it. `fingerprint` stands for the request, so that the same
    /// key with another request is found out. A claim of a process that died stays
    /// `InProgress` until it expires: whether the request ran is not known.
    ///
    /// # Errors
    /// Only those of the store itself.
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
    /// Only those of the store itself.
    async fn release_key(&self, key: &IdempotencyKey) -> Result<(), StoreError>;

    /// Removes what expired at this moment or before; how many.
    ///
    /// # Errors
    /// Only those of the store itself.
    async fn remove_expired_keys(&self, now: Timestamp) -> Result<u64, StoreError>;
}
