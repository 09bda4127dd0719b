use pillion_core::egress::EgressPolicy;
use serde::Deserialize;

/// `[servers]`: what holds for the MCP servers that are added while the sidecar runs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct StoredServersSection {
    /// Where their requests may go. Default: that of `[[mcp_servers]]`, which is https for
    /// every other machine.
    pub egress: EgressPolicy,
}
