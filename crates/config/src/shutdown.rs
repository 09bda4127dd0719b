use std::time::Duration;

use serde::Deserialize;

use super::millis;

/// `[shutdown]`: how the sidecar stops.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ShutdownSection {
    /// How long running calls may continue after SIGTERM or SIGINT before they are aborted.
    /// `PILLION__SHUTDOWN__GRACE_MS`. Default 30,000 ms.
    #[serde(rename = "grace_ms", deserialize_with = "millis::any")]
    pub grace: Duration,
}

impl Default for ShutdownSection {
    fn default() -> Self {
        Self {
            grace: Duration::from_secs(30),
        }
    }
}
