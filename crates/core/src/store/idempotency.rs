use std::time::Duration;

use async_trait::async_trait;

use super::{StoreError, Timestamp};

/// The key by which a caller identifies a request, so that sending the request twice runs it once.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct IdempotencyKey {
    /// Identifies the principal and the user that chose the key. Requests with different scopes may
    /// have the same key.
    pub scope: String,
    /// The key, as the caller sent it.
    pub key: String,
}

/// The outcome of claiming an idempotency key.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeyClaim {
    /// The caller has claimed the key: run the request, then record its result or release the key.
    Claimed,
    /// Another request has claimed the key, and has no recorded result.
    InProgress {
        /// The fingerprint of the other request.
        fingerprint: String,
        /// The time at which the claim expires, which may be in the past. The store does not know
        /// whether the other request still runs.
        expires_at: Timestamp,
    },
    /// The request with this key has already run.
    Recorded {
        /// The fingerprint of the request that has run.
        fingerprint: String,
        /// The result of the request that has run.
        result: String,
        /// The time at which the result expires, which may be in the past.
        expires_at: Timestamp,
    },
}

/// How long an expired claim without a result is kept. Longer than the maximum duration of a call.
pub const UNFINISHED_KEY_TTL: Duration = Duration::from_secs(2 * 24 * 60 * 60);

/// Stores the results of requests with an `Idempotency-Key`.
#[async_trait]
pub trait IdempotencyStore: Send + Sync {
    /// Claims a key for a request. Succeeds if the key is free, or if it expired at or before
    /// `expired_until`. Pass the time that [`keys_expired_until`](Self::keys_expired_until)
    /// returned as `expired_until`. `fingerprint` identifies the request, so that the caller can
    /// detect reuse of the key for another request.
    ///
    /// A claim without a result remains `InProgress` for [`UNFINISHED_KEY_TTL`] after its expiry,
    /// because it is unknown whether the request ran or still runs.
    ///
    /// # Errors
    /// The store cannot be read or written.
    async fn claim_key(
        &self,
        key: &IdempotencyKey,
        fingerprint: &str,
        expired_until: Timestamp,
        expires_at: Timestamp,
    ) -> Result<KeyClaim, StoreError>;

    /// Returns the latest expiry time of keys that have certainly expired, even if the system clock
    /// is wrong; `None` if no key has certainly expired. A key expires `ttl` after its claim.
    ///
    /// # Errors
    /// The store cannot be read.
    async fn keys_expired_until(&self, ttl: Duration) -> Result<Option<Timestamp>, StoreError>;

    /// Stores the result of the request that claimed the key with `fingerprint`.
    ///
    /// # Errors
    /// `not_found` if the key is not claimed; `conflict` if there is already a result, or another
    /// request has claimed the key.
    async fn record_key(
        &self,
        key: &IdempotencyKey,
        fingerprint: &str,
        result: &str,
    ) -> Result<(), StoreError>;

    /// Releases the claim with this fingerprint, because the request did not run. Does nothing if
    /// the key has a result or a later claim, because the release of an earlier claim may arrive
    /// late.
    ///
    /// # Errors
    /// The store cannot be written.
    async fn release_key(&self, key: &IdempotencyKey, fingerprint: &str) -> Result<(), StoreError>;

    /// Returns the total size of the stored results of each scope, in bytes.
    ///
    /// # Errors
    /// The store cannot be read.
    async fn key_bytes(&self) -> Result<Vec<(String, u64)>, StoreError>;

    /// Removes the keys with a result that expired by `until`, and the keys without a result that
    /// expired at least [`UNFINISHED_KEY_TTL`] before `until`. Returns the number of removed keys.
    ///
    /// # Errors
    /// The store cannot be written.
    async fn remove_expired_keys(&self, until: Timestamp) -> Result<u64, StoreError>;
}
