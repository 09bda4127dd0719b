use std::num::NonZeroUsize;
use std::time::Duration;

use serde::Deserialize;

use super::millis;

/// `[workers]`: processes that offer tools of their own over the Unix socket.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WorkersSection {
    /// Whether there may be any. `PILLION__WORKERS__ENABLED`. Default true: whoever can open
    /// the socket may do everything anyway.
    pub enabled: bool,
    /// How many may be connected at once. `PILLION__WORKERS__MAX_WORKERS`. Default 256.
    pub max_workers: NonZeroUsize,
    /// How long a tool stays when its last worker is gone; calls wait for the next meanwhile.
    /// `PILLION__WORKERS__GRACE_MS`. Default 10,000 ms.
    #[serde(rename = "grace_ms", deserialize_with = "millis::any")]
    pub grace: Duration,
    /// The longest message of a worker, a result included; a worker that sends a longer one
    /// is cut off. `PILLION__WORKERS__MAX_MESSAGE_BYTES`. Default 16 MiB.
    pub max_message_bytes: NonZeroUsize,
}

impl Default for WorkersSection {
    fn default() -> Self {
        Self {
            enabled: true,
            max_workers: NonZeroUsize::MIN.saturating_add(255),
            grace: Duration::from_secs(10),
            max_message_bytes: NonZeroUsize::MIN.saturating_add((16 << 20) - 1),
        }
    }
}
