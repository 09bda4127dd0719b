use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{OfferedTools, millis};

/// `[mcp]`: discovery of the tools of MCP servers, and the tools that are offered to MCP clients.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct McpSection {
    /// Maximum time for a server to list its tools, including the connection setup.
    /// `PILLION__MCP__DISCOVERY_TIMEOUT_MS`. Default 10,000 ms.
    #[serde(rename = "discovery_timeout_ms", deserialize_with = "millis::positive")]
    pub discovery_timeout: Duration,
    /// How long a server that failed to list its tools is backed off; the time doubles with each
    /// further failure, up to five minutes. `PILLION__MCP__RETRY_AFTER_MS`. Default 15,000 ms.
    #[serde(rename = "retry_after_ms", deserialize_with = "millis::any")]
    pub retry_after: Duration,
    /// Age at which a server's tool list is stale and is requested again on the next use; 0 means
    /// that the list is requested once. `PILLION__MCP__REFRESH_AFTER_MS`. Default 300,000 ms.
    #[serde(rename = "refresh_after_ms", deserialize_with = "millis::any")]
    pub refresh_after: Duration,
    /// How a changed tool definition is treated until the change is accepted: `off`, `warn` or
    /// `block`. A server's own `pin` overrides this setting. `PILLION__MCP__PIN`. Default `warn`.
    pub pin: PinPolicy,
    /// The tools that are offered to clients of `/mcp` and of `pillion mcp-stdio`: tool names,
    /// prefixes of names with `*`, `@builtin` or `@servers`; an entry with `!` before it excludes
    /// tools. `PILLION__MCP__TOOLS`. Default `["*"]`.
    pub tools: OfferedTools,
}

/// How a tool is treated whose definition differs from the accepted one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PinPolicy {
    /// Tool definitions are neither recorded nor compared.
    Off,
    /// The change is logged.
    #[default]
    Warn,
    /// The tool is not offered and cannot be called.
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
