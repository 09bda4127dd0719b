use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;

use super::millis;

/// `[results]`: the files of stored results, which exceed `executor.max_result_bytes`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ResultsSection {
    /// The directory of the files, which only the sidecar uses. A change takes effect at the next
    /// start. `PILLION__RESULTS__DIRECTORY`. Default: `results` beside the store's file, or in the
    /// state directory.
    pub directory: Option<PathBuf>,
    /// How long a stored result can be fetched. `PILLION__RESULTS__TTL_MS`. Default 3,600,000 ms
    /// (one hour).
    #[serde(rename = "ttl_ms", deserialize_with = "millis::positive")]
    pub ttl: Duration,
    /// Maximum total size of all stored results, in bytes; the oldest are deleted.
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
