use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{OfferedTools, millis};

/// `[mcp]`: discovery of the tools of MCP servers, and the tools that MCP clients are offered.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct McpSection {
    /// How long a server may take to list its tools, connecting included.
    /// `PILLION__MCP__DISCOVERY_TIMEOUT_MS`. Default 10,000 ms.
    #[serde(rename = "discovery_timeout_ms", deserialize_with = "millis::positive")]
    pub discovery_timeout: Duration,
    /// How long a server that failed to list its tools is left alone; twice as long with
    /// each further failure, up to five minutes.
    /// `PILLION__MCP__RETRY_AFTER_MS`. Default 15,000 ms.
    #[serde(rename = "retry_after_ms", deserialize_with = "millis::any")]
    pub retry_after: Duration,
    /// How old a server's list may grow before the next look asks again; 0 means that it
    /// is asked once. `PILLION__MCP__REFRESH_AFTER_MS`. Default 300,000 ms.
    #[serde(rename = "refresh_after_ms", deserialize_with = "millis::any")]
    pub refresh_after: Duration,
    /// What becomes of a tool whose definition is another than the one that was there first,
    /// until somebody accepts it: `off`, `warn` or `block`; a server may have its own.
    /// `PILLION__MCP__PIN`. Default `warn`.
    pub pin: PinPolicy,
    /// The tools that clients of `/mcp` and of `pillion mcp-stdio` are offered: names, prefixes of
    /// names with `*`, `@builtin` or `@servers`; an entry with `!` before it excludes tools.
    /// `PILLION__MCP__TOOLS`. Default `["*"]`.
    pub tools: OfferedTools,
}

/// What becomes of a server's tool that is not what it was accepted to be.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PinPolicy {
    /// Nothing is kept, and nothing compared.
    Off,
    /// The log tells of it.
    #[default]
    Warn,
    /// It is not offered, and cannot be called.
    Block,
}

impl Default for McpSection {
    fn default() -> Self {
        Self {
            discovery_timeout: Duration::from_secs(10),
            retry_after: Duration::from_secs(15),
            refresh_after: Duration::from_secs(300),
            pin: PinPolicy::Warn,
            tools: OfferedTools::default(),
        }
    }
}
