use std::collections::{HashMap, HashSet};

use crate::registry::{RegisteredTool, ToolRegistry};
use crate::tool::{ApprovalPolicy, ToolOrigin};

/// Which tools need approval (G1, G2). By default none but those whose definition says
/// `requires_confirmation`.
///
/// The most exact policy counts: that of the tool, else that of its server, else what the tool
/// brings along ([`Tool::approval_policy`](crate::tool::Tool::approval_policy)), else the
/// default. A tool may be named by its aliases too; of several policies for one tool the
/// strictest counts. A definition with `requires_confirmation` asks in any case.
#[derive(Debug, Clone, Default)]
pub struct ApprovalRules {
    /// For tools that neither `tools` nor `servers` names.
    pub default: ApprovalPolicy,
    /// The tools that [`ApprovalPolicy::TrustedOnly`] lets through, by name.
    pub trusted_tools: HashSet<String>,
    /// For single tools, by name.
    pub tools: HashMap<String, ApprovalPolicy>,
    /// For all tools of one MCP server, by the server's label.
    pub servers: HashMap<String, ApprovalPolicy>,
}

impl ApprovalRules {
    /// Whether calls of this tool need approval. The registry knows its aliases.
    #[must_use]
    pub fn asks(&self, tool: &RegisteredTool, registry: &ToolRegistry) -> bool {
        if tool.definition().requires_confirmation() {
            return true;
        }
        let of_server = || match tool.origin() {
            ToolOrigin::Mcp { server_label, .. } => self.servers.get(server_label).copied(),
            ToolOrigin::Native => None,
        };
        let brought_along = || tool.tool().approval_policy();
        let means_it = |name: &String| registry.means(name, tool);
        let named = self.tools.iter().filter(|(name, _)| means_it(name));
        let strictest = named.map(|(_, policy)| *policy).max();
        let policy = strictest.or_else(of_server).or_else(brought_along);
        match policy.unwrap_or(self.default) {
            ApprovalPolicy::Auto => false,
            ApprovalPolicy::TrustedOnly => !self.trusted_tools.iter().any(means_it),
            ApprovalPolicy::AlwaysAsk => true,
        }
    }
}
