use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::value::RawValue;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::Notification;

/// Maximum number of the server's requests that are processed concurrently; they may wait for a
/// user.
const MAX_REQUESTS: usize = 16;

/// Maximum total size of the parameters of the server's requests that are processed concurrently,
/// in KiB.
const MAX_KIB: usize = 32 * 1024;

/// Maximum number of immediate responses (errors, and responses to `ping`) that are being sent.
/// Beyond it, requests get no response: the server does not read the responses.
const MAX_IMMEDIATE_RESPONSES: usize = 64;

/// Maximum size of the id of a server's request, in bytes: the response repeats the id.
const MAX_ID_LEN: usize = 1024;

/// Maximum size of a notification that waits for a listener, in bytes.
const MAX_NOTIFICATION_BYTES: usize = 64 * 1024;

/// Limits the resources that one server's messages can take.
pub(super) struct PeerLimits {
    requests: Arc<Semaphore>,
    kib: Arc<Semaphore>,
    immediate_responses: Arc<Semaphore>,
    dropped: AtomicU64,
}

/// The capacity that a request of the server occupies until its response is sent.
pub(super) type ReservedCapacity = (OwnedSemaphorePermit, Option<OwnedSemaphorePermit>);

impl PeerLimits {
    pub(super) fn new() -> Self {
        Self {
            requests: Arc::new(Semaphore::new(MAX_REQUESTS)),
            kib: Arc::new(Semaphore::new(MAX_KIB)),
            immediate_responses: Arc::new(Semaphore::new(MAX_IMMEDIATE_RESPONSES)),
            dropped: AtomicU64::new(0),
        }
    }

    /// Reserves capacity for a request with parameters of this size.
    pub(super) fn reserve_request(&self, bytes: usize) -> Option<ReservedCapacity> {
        // The response limits may be configured above `MAX_KIB`: one request of that size is
        // accepted.
        let kib = u32::try_from(bytes.div_ceil(1024).min(MAX_KIB)).ok()?;
        let permit = Arc::clone(&self.requests).try_acquire_owned().ok()?;
        let size_permit = Arc::clone(&self.kib).try_acquire_many_owned(kib).ok()?;
        Some((permit, Some(size_permit)))
    }

    /// Returns whether an id is short enough for a response.
    pub(super) fn fits_id(id: &RawValue) -> bool {
        id.get().len() <= MAX_ID_LEN
    }

    /// Reserves capacity for an immediate response.
    pub(super) fn reserve_immediate_response(&self) -> Option<ReservedCapacity> {
        let permit = Arc::clone(&self.immediate_responses).try_acquire_owned();
        Some((permit.ok()?, None))
    }

    /// Returns whether a notification is small enough to wait for a listener.
    pub(super) fn fits(notice: &Notification) -> bool {
        notice.method.len() + notice.params.get().len() <= MAX_NOTIFICATION_BYTES
    }

    /// Counts and logs a dropped message; the first one as a warning.
    pub(super) fn count_dropped(&self, method: &str) {
        let dropped = self.dropped.fetch_add(1, Ordering::Relaxed) + 1;
        let method: String = method.chars().take(100).collect();
        if dropped == 1 {
            tracing::warn!(
                method,
                "Dropped a message of an MCP server, because too many wait or it is too large; further \
                 dropped messages are logged at level debug"
            );
        } else {
            tracing::debug!(method, dropped, "Dropped a message of an MCP server");
        }
    }

    #[cfg(test)]
    pub(super) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}
