use std::time::Duration;

use pillion_core::executor::Redaction;
use pillion_core::store::Retention;
use serde::Deserialize;

/// `[call_log]`: contents and retention of the call log.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct CallLogSection {
    /// How arguments and results are redacted. Default: see
    /// [`[call_log.redact]`](#call_logredact).
    #[cfg_attr(test, schemars(with = "serde_json::Map<String, serde_json::Value>"))]
    pub redact: Redaction,
    /// Maximum age of a recorded call, in days.
    pub max_age_days: Option<u32>,
    /// Maximum number of recorded calls; the oldest are deleted.
    pub max_calls: Option<u64>,
    /// Maximum total size of recorded arguments and results, in bytes; the oldest calls are
    /// deleted.
    pub max_bytes: Option<u64>,
}

impl Default for CallLogSection {
    fn default() -> Self {
        Self {
            redact: Redaction::default(),
            max_age_days: Some(30),
            max_calls: Some(1_000_000),
            max_bytes: Some(1 << 30),
        }
    }
}

impl CallLogSection {
    /// Returns the retention limits of the call log.
    pub fn retention(&self) -> Retention {
        let day = Duration::from_secs(24 * 60 * 60);
        Retention {
            max_age: self.max_age_days.map(|days| day * days),
            max_calls: self.max_calls,
            max_bytes: self.max_bytes,
        }
    }
}
