use std::num::NonZeroUsize;
use std::time::Duration;

use serde::Deserialize;

use super::millis;

/// `[workers]`: worker processes that register tools over the Unix socket.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WorkersSection {
    /// Whether workers may connect. `PILLION__WORKERS__ENABLED`. Default true: a process that can
    /// open the socket has full access anyway.
    pub enabled: bool,
    /// Maximum number of connected workers. `PILLION__WORKERS__MAX_WORKERS`. Default 256.
    pub max_workers: NonZeroUsize,
    /// How long a tool stays available after its last worker disconnected; calls wait for a new
    /// worker. `PILLION__WORKERS__GRACE_MS`. Default 10,000 ms.
    #[serde(rename = "grace_ms", deserialize_with = "millis::any")]
    pub grace: Duration,
    /// Maximum size of a worker's message, including results, in bytes; a worker that exceeds it is
    /// disconnected. `PILLION__WORKERS__MAX_MESSAGE_BYTES`. Default 16 MiB.
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
