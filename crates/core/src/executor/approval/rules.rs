use std::collections::{HashMap, HashSet};

use serde::Deserialize;

use crate::executor::ToolSettings;
use crate::registry::{RegisteredTool, ToolRegistry};
use crate::tool::{ApprovalPolicy, ToolOrigin};

/// Determines which tools need approval. By default, only tools whose definition sets
/// `requires_confirmation`.
///
/// The most specific policy applies: that of the tool, else that of the tool's server, else the
/// tool's own ([`Tool::approval_policy`](crate::tool::Tool::approval_policy)), else the default. A
/// policy can name a tool by its aliases, too; if several policies name one tool, the strictest
/// applies. A tool with `requires_confirmation` always needs approval.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "an object")]
pub struct ApprovalRules {
    /// Policy for tools that neither `tools` nor `servers` names, and that have no policy of their
    /// own.
    pub default: ApprovalPolicy,
    /// Names of tools that need no approval under [`ApprovalPolicy::TrustedOnly`].
    pub trusted_tools: HashSet<String>,
    /// Policies of single tools, by name.
    pub tools: ToolSettings<ApprovalPolicy>,
    /// Policies for all tools of an MCP server, by the server's label.
    pub servers: HashMap<String, ApprovalPolicy>,
}

impl ApprovalRules {
    /// Returns whether calls of this tool need approval. `registry` resolves aliases.
    #[must_use]
    pub fn requires_approval(&self, tool: &RegisteredTool, registry: &ToolRegistry) -> bool {
        if tool.definition().requires_confirmation() {
            return true;
        }
        let of_server = || match tool.origin() {
            ToolOrigin::Mcp { server_label, .. } => self.servers.get(server_label).copied(),
            ToolOrigin::Native => None,
        };
        let brought_along = || tool.tool().approval_policy();
        let named = self.tools.matching(|name, is_in_any_case| {
            if is_in_any_case {
                registry.resolves_to_in_any_case(name, tool)
            } else {
                registry.resolves_to(name, tool)
            }
        });
        let strictest = named.copied().max();
        let policy = strictest.or_else(of_server).or_else(brought_along);
        match policy.unwrap_or(self.default) {
            ApprovalPolicy::Auto => false,
            ApprovalPolicy::TrustedOnly => {
                let mut trusted = self.trusted_tools.iter();
                !trusted.any(|name| registry.resolves_to(name, tool))
            }
            ApprovalPolicy::AlwaysAsk => true,
        }
    }
}
