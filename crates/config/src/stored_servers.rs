use pillion_egress::EgressPolicy;
use serde::Deserialize;

/// `[servers]`: settings of the MCP servers that are added at run time.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct StoredServersSection {
    /// Where requests to [added servers](../how-to/connect-mcp-servers.md#at-run-time) may go; by
    /// default, plain `http` is allowed to this machine only. Default: as for `[[mcp_servers]]`.
    #[cfg_attr(test, schemars(with = "serde_json::Map<String, serde_json::Value>"))]
    pub egress: EgressPolicy,
}
