use std::num::NonZeroUsize;
use std::time::Duration;

use serde::Deserialize;

use super::millis;

/// `[workers]`: worker processes that register tools over the Unix socket.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct WorkersSection {
    /// Whether [workers](../how-to/workers.md) may connect. A process that can open the socket has
    /// full access anyway.
    pub enabled: bool,
    /// Maximum number of connected workers.
    pub max_workers: NonZeroUsize,
    /// How long a tool stays available after its last worker has disconnected; meanwhile, calls of
    /// the tool wait for a new worker.
    #[serde(rename = "grace_period_ms", deserialize_with = "millis::read_any")]
    #[cfg_attr(test, schemars(with = "u64", range(min = 0, max = millis::MAX_MS)))]
    pub grace: Duration,
    /// Maximum size of a worker's message, including results, in bytes; a worker with a larger
    /// message is disconnected.
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
