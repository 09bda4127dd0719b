use std::num::NonZeroUsize;
use std::time::Duration;

use serde::Deserialize;

use super::millis;

/// `[http]`: limits of the HTTP server.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HttpSection {
    /// The longest request body, in bytes; a longer one gets status 413.
    /// `PILLION__HTTP__MAX_BODY_BYTES`. Default 1 MiB.
    pub max_body_bytes: NonZeroUsize,
    /// How long a request's body may take to arrive; then it gets status 408.
    /// `PILLION__HTTP__BODY_TIMEOUT_MS`. Default 30,000 ms.
    #[serde(rename = "body_timeout_ms", deserialize_with = "millis::positive")]
    pub body_timeout: Duration,
    /// How long a connection may be without a complete request head, whether it is idle
    /// between requests or a head comes slowly; then it is closed.
    /// `PILLION__HTTP__IDLE_TIMEOUT_MS`. Default 75,000 ms.
    #[serde(rename = "idle_timeout_ms", deserialize_with = "millis::positive")]
    pub idle_timeout: Duration,
    /// How many connections are served at once; more wait in the system's queue.
    /// `PILLION__HTTP__MAX_CONNECTIONS`. Default 512.
    pub max_connections: NonZeroUsize,
    /// How many calls one batch may have. `PILLION__HTTP__MAX_BATCH_CALLS`. Default 100.
    pub max_batch_calls: NonZeroUsize,
}

impl Default for HttpSection {
    fn default() -> Self {
        let number = |n| NonZeroUsize::new(n).unwrap_or(NonZeroUsize::MIN);
        Self {
            max_body_bytes: number(1024 * 1024),
            body_timeout: Duration::from_secs(30),
            idle_timeout: Duration::from_secs(75),
            max_connections: number(512),
            max_batch_calls: number(100),
        }
    }
}
