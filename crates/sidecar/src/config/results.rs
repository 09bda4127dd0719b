use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;

use super::millis;

/// `[results]`: the files of results that are larger than `executor.max_result_bytes`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ResultsSection {
    /// The directory, of the sidecar alone. Takes effect at the next start.
    /// `PILLION__RESULTS__DIRECTORY`. Default `results` beside the store's file, or in the state
    /// directory.
    pub directory: Option<PathBuf>,
    /// How long a result can be fetched. `PILLION__RESULTS__TTL_MS`. Default 3,600,000 ms, an
    /// hour.
    #[serde(rename = "ttl_ms", deserialize_with = "millis::positive")]
    pub ttl: Duration,
    /// The bytes of all of them; the oldest go when there are more.
    /// `PILLION__RESULTS__MAX_BYTES`. Default 256 MiB.
    pub max_bytes: u64,
}

impl Default for ResultsSection {
    fn default() -> Self {
        Self {
            directory: None,
            ttl: Duration::from_secs(60 * 60),
            max_bytes: 256 * 1024 * 1024,
        }
    }
}
