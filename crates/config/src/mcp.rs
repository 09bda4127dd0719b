use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{OfferedTools, millis};

/// `[mcp]`: discovery of the tools of MCP servers, and the tools that are offered to MCP clients.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct McpSection {
    /// Maximum time for a server to list its tools, including the connection setup.
    #[serde(rename = "discovery_timeout_ms")]
    #[serde(deserialize_with = "millis::read_positive")]
    #[cfg_attr(test, schemars(with = "u64", range(min = 1, max = millis::MAX_MS)))]
    pub discovery_timeout: Duration,
    /// How long Pillion waits, after a server failed to list its tools, before Pillion requests the
    /// list again; the time doubles with each further failure, up to five minutes.
    #[serde(rename = "retry_after_ms", deserialize_with = "millis::read_any")]
    #[cfg_attr(test, schemars(with = "u64", range(min = 0, max = millis::MAX_MS)))]
    pub retry_after: Duration,
    /// Age at which a server's tool list is stale and is requested again on the next use; 0 means
    /// that the list is requested once.
    #[serde(rename = "refresh_after_ms", deserialize_with = "millis::read_any")]
    #[cfg_attr(test, schemars(with = "u64", range(min = 0, max = millis::MAX_MS)))]
    pub refresh_after: Duration,
    /// How to treat a tool whose definition has changed, until an operator accepts the change:
    /// `off`, `warn` or `block`; see [Pins](../how-to/pins.md). A server's own `pin` overrides this
    /// setting.
    pub pin: PinPolicy,
    /// How to treat a tool that a server adds after the server's tools were pinned for the first
    /// time: `accept`, or `block` until an operator accepts the tool; see
    /// [Pins](../how-to/pins.md#new-and-renamed-tools). A server's own `new_tools` overrides this
    /// setting.
    pub new_tools: NewToolPolicy,
    /// The tools that are [offered](../how-to/serve-mcp-clients.md#offered-tools-and-resources) to
    /// clients of `/mcp` and of `pillion mcp-stdio`: tool names, prefixes of names with `*`,
    /// `@builtin` or `@servers`; an entry that begins with `!` excludes tools. Default: `["*"]`.
    #[cfg_attr(test, schemars(with = "Vec<String>"))]
    pub tools: OfferedTools,
}

/// How to treat a tool whose definition differs from the accepted definition.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum PinPolicy {
    /// The definitions of tools are neither recorded nor compared.
    Off,
    /// A change of a tool's definition is logged; the tool stays available.
    #[default]
    Warn,
    /// A tool whose definition has changed is not offered and cannot be called.
    Block,
}

/// How to treat a tool that a server adds after the server's tools were pinned for the first time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum NewToolPolicy {
    /// The new tool is pinned and offered.
    #[default]
    Accept,
    /// The new tool is not offered and cannot be called until an operator accepts it.
    Block,
}

impl Default for McpSection {
    fn default() -> Self {
        Self {
            discovery_timeout: Duration::from_secs(10),
            retry_after: Duration::from_secs(15),
            refresh_after: Duration::from_secs(300),
            pin: PinPolicy::Warn,
            new_tools: NewToolPolicy::Accept,
            tools: OfferedTools::default(),
        }
    }
}
