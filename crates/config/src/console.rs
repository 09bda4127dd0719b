use std::time::Duration;

use serde::Deserialize;

use super::millis;

/// `[console]`: the [web console](../how-to/use-the-console.md). `pillion console` opens the console
/// without any of these settings.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct ConsoleSection {
    /// Whether the TCP listener serves the console, below the path `/console`. Browsers sign in with
    /// an access token, or with a link of `pillion console --link`.
    pub tcp: bool,
    /// Whether the console shows everything but changes nothing.
    pub read_only: bool,
    /// How long a browser stays signed in after its last request. The updates of an open page do
    /// not count.
    #[serde(rename = "idle_timeout_ms")]
    #[serde(deserialize_with = "millis::read_positive")]
    #[cfg_attr(test, schemars(with = "u64", range(min = 1, max = millis::MAX_MS)))]
    pub idle_timeout: Duration,
    /// How long a browser stays signed in after its sign-in.
    #[serde(rename = "session_ttl_ms")]
    #[serde(deserialize_with = "millis::read_positive")]
    #[cfg_attr(test, schemars(with = "u64", range(min = 1, max = millis::MAX_MS)))]
    pub session_ttl: Duration,
}

impl Default for ConsoleSection {
    fn default() -> Self {
        Self {
            tcp: false,
            read_only: false,
            idle_timeout: Duration::from_secs(60 * 60),
            session_ttl: Duration::from_secs(12 * 60 * 60),
        }
    }
}
