use pillion_egress::EgressPolicy;
use serde::Deserialize;

/// `[servers]`: settings of the MCP servers that are added at run time.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct StoredServersSection {
    /// Where requests to these servers may go. Default: the default of `[[mcp_servers]]`, which
    /// requires HTTPS for every other host.
    pub egress: EgressPolicy,
}
