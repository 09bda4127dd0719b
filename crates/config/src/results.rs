use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;

use super::millis;

/// `[results]`: the files of stored results, which exceed `executor.max_result_bytes`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct ResultsSection {
    /// The directory for the files of stored results; only the sidecar uses the directory. A change
    /// of this key takes effect when the sidecar restarts. Default: `results` beside the store's
    /// file, or in the state directory.
    pub directory: Option<PathBuf>,
    /// How long a stored result can be fetched.
    #[serde(rename = "ttl_ms", deserialize_with = "millis::read_positive")]
    #[cfg_attr(test, schemars(with = "u64", range(min = 1, max = millis::MAX_MS)))]
    pub ttl: Duration,
    /// Maximum total size of all stored results, in bytes; the oldest are deleted.
    pub max_bytes: u64,
}

impl ResultsSection {
    /// If the value of `directory` is not a directory, returns the key and an error message.
    pub(super) fn find_fault(&self) -> Option<(&'static str, &'static str)> {
        let directory = self.directory.as_deref()?;
        // A missing directory is valid, because it is created.
        let metadata = std::fs::metadata(directory).ok();
        let is_other_file = metadata.is_some_and(|metadata| !metadata.is_dir());
        is_other_file.then_some(("directory", "the path exists, but is not a directory"))
    }
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
