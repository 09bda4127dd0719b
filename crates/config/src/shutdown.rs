use std::time::Duration;

use serde::Deserialize;

use super::millis;

/// `[shutdown]`: how the sidecar stops.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct ShutdownSection {
    /// How long running calls may continue after SIGTERM or SIGINT before they are aborted.
    #[serde(rename = "grace_period_ms", deserialize_with = "millis::read_any")]
    #[cfg_attr(test, schemars(with = "u64", range(min = 0, max = millis::MAX_MS)))]
    pub grace: Duration,
}

impl Default for ShutdownSection {
    fn default() -> Self {
        Self {
            grace: Duration::from_secs(30),
        }
    }
}
