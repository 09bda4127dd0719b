use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::value::RawValue;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::Notification;

/// Maximum number of the server's requests that are processed concurrently; they may wait for a
/// user.
pub(super) const MAX_CONCURRENT_REQUESTS: usize = 16;

/// Maximum total size of the parameters of the server's requests that are processed concurrently,
/// in KiB.
pub(super) const MAX_REQUEST_KIB: usize = 32 * 1024;

/// Maximum number of immediate responses (errors, and responses to `ping`) that are being sent.
/// Further requests get no response, because so many unsent responses mean that the server does not
/// read them.
const MAX_IMMEDIATE_RESPONSES: usize = 64;

/// Maximum size of the ID of a server's request, in bytes: the response repeats the ID.
const MAX_ID_BYTES: usize = 1024;

/// Maximum size of a notification that waits for a receiver, in bytes.
const MAX_NOTIFICATION_BYTES: usize = 64 * 1024;

/// Limits the resources that one server's messages can take.
pub(super) struct PeerLimits {
    request_permits: Arc<Semaphore>,
    kib_permits: Arc<Semaphore>,
    immediate_permits: Arc<Semaphore>,
    dropped_count: AtomicU64,
}

/// The capacity that a request of the server occupies until its response is sent.
pub(super) type ReservedCapacity = (OwnedSemaphorePermit, Option<OwnedSemaphorePermit>);

impl PeerLimits {
    pub(super) fn new() -> Self {
        Self {
            request_permits: Arc::new(Semaphore::new(MAX_CONCURRENT_REQUESTS)),
            kib_permits: Arc::new(Semaphore::new(MAX_REQUEST_KIB)),
            immediate_permits: Arc::new(Semaphore::new(MAX_IMMEDIATE_RESPONSES)),
            dropped_count: AtomicU64::new(0),
        }
    }

    /// Reserves capacity for a request with parameters of this size.
    pub(super) fn reserve_request(&self, params_bytes: usize) -> Option<ReservedCapacity> {
        // A request counts as at most `MAX_REQUEST_KIB`, so that a larger request is accepted if no
        // other request is being processed. Larger requests are possible, because the configured
        // response limits may allow them.
        let size_kib = u32::try_from(params_bytes.div_ceil(1024).min(MAX_REQUEST_KIB)).ok()?;
        let permit = Arc::clone(&self.request_permits).try_acquire_owned().ok()?;
        let kib_permits = Arc::clone(&self.kib_permits);
        let size_permit = kib_permits.try_acquire_many_owned(size_kib).ok()?;
        Some((permit, Some(size_permit)))
    }

    /// Returns whether an ID is short enough for a response.
    pub(super) fn is_id_within_limit(id: &RawValue) -> bool {
        id.get().len() <= MAX_ID_BYTES
    }

    /// Reserves capacity for an immediate response.
    pub(super) fn reserve_immediate_response(&self) -> Option<ReservedCapacity> {
        let permit = Arc::clone(&self.immediate_permits).try_acquire_owned();
        Some((permit.ok()?, None))
    }

    /// Returns whether a notification is small enough to wait for a receiver.
    pub(super) fn is_within_limit(notification: &Notification) -> bool {
        notification.method.len() + notification.params.get().len() <= MAX_NOTIFICATION_BYTES
    }

    /// Counts and logs a dropped message. Only the first dropped message is logged as a warning.
    pub(super) fn count_dropped(&self, method: &str) {
        let dropped_count = self.dropped_count.fetch_add(1, Ordering::Relaxed) + 1;
        let short_method: String = method.chars().take(100).collect();
        if dropped_count == 1 {
            tracing::warn!(
                method = short_method,
                "Dropped a message of an MCP server, because too many messages wait or \
                 the message is too large; further dropped messages are logged at level debug"
            );
        } else {
            tracing::debug!(
                method = short_method,
                dropped = dropped_count,
                "Dropped a message of an MCP server"
            );
        }
    }

    #[cfg(test)]
    pub(super) fn dropped_count(&self) -> u64 {
        self.dropped_count.load(Ordering::Relaxed)
    }
}
