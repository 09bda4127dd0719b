use std::collections::HashMap;
use std::time::Duration;

use pillion_core::store::{Store, StoreError};
use tokio::sync::Mutex;
use tokio::time::Instant;

/// Interval at which the sizes of stored responses are read from the store again, because responses
/// expire and other processes store responses.
const REFRESH_INTERVAL: Duration = Duration::from_secs(60);

/// The number of bytes of each principal's stored responses, counted in memory so that storing a
/// response does not require a sum over the store.
#[derive(Debug, Default)]
pub(super) struct ResponseBytes(Mutex<Option<ByteCounts>>);

#[derive(Debug)]
struct ByteCounts {
    bytes_by_principal: HashMap<Option<String>, u64>,
    read_at: Instant,
}

/// Returns the scope of an idempotency key in the store, which identifies the principal and user.
pub fn format_scope(principal: Option<&str>, user: Option<&str>) -> String {
    serde_json::json!([principal, user]).to_string()
}

impl ResponseBytes {
    /// Counts a response if the responses of its principal, with this response, have at most
    /// `max_bytes` bytes. Returns whether the response was counted.
    pub(super) async fn admit(
        &self,
        store: &dyn Store,
        principal: Option<&str>,
        bytes: u64,
        max_bytes: u64,
    ) -> Result<bool, StoreError> {
        let mut cached_counts = self.0.lock().await;
        let counts = match &mut *cached_counts {
            Some(counts) if counts.read_at.elapsed() < REFRESH_INTERVAL => counts,
            outdated_counts => outdated_counts.insert(read_counts(store).await?),
        };
        let principal_name = principal.map(str::to_owned);
        let stored_bytes = counts.bytes_by_principal.entry(principal_name).or_default();
        let is_within_limit = stored_bytes.saturating_add(bytes) <= max_bytes;
        if is_within_limit {
            *stored_bytes += bytes;
        }
        Ok(is_within_limit)
    }
}

async fn read_counts(store: &dyn Store) -> Result<ByteCounts, StoreError> {
    let mut bytes_by_principal = HashMap::new();
    for (scope, bytes) in store.key_bytes().await? {
        let (principal, _): (Option<String>, Option<String>) =
            serde_json::from_str(&scope).unwrap_or_default();
        *bytes_by_principal.entry(principal).or_default() += bytes;
    }
    Ok(ByteCounts {
        bytes_by_principal,
        read_at: Instant::now(),
    })
}

#[cfg(test)]
mod tests {
    use pillion_core::store::{IdempotencyKey, IdempotencyStore, Timestamp};

    use super::*;
    use crate::test_support::memory_store;

    #[tokio::test]
    async fn the_size_of_stored_responses_is_limited_for_each_principal() {
        let store = memory_store().await;
        let (ci, app) = (Some("token:ci"), Some("token:app"));
        let now = Timestamp::now();
        let expires_at = now.plus(Duration::from_secs(3600));
        for (user, result) in [(None, "1234"), (Some("alice"), "5678")] {
            let key = IdempotencyKey {
                scope: format_scope(ci, user),
                key: "k".to_owned(),
            };
            store.claim_key(&key, "f", now, expires_at).await.unwrap();
            store.record_key(&key, "f", result).await.unwrap();
        }
        let bytes = ResponseBytes::default();
        let admit = async |owner, size| bytes.admit(&*store, owner, size, 10).await.unwrap();
        assert!(!admit(ci, 3).await);
        assert!(admit(ci, 2).await && !admit(ci, 1).await);
        assert!(admit(app, 10).await && !admit(app, 1).await);
        assert!(admit(None, 10).await);
        // Admitted responses that were not stored are forgotten at the next refresh.
        tokio::time::pause();
        tokio::time::advance(REFRESH_INTERVAL).await;
        tokio::time::resume();
        assert!(admit(app, 10).await && admit(ci, 2).await && !admit(ci, 1).await);
    }
}
