use std::collections::{HashMap, HashSet};

use serde::{Deserialize, Serialize};

use crate::registry::{RegisteredTool, ToolRegistry};
use crate::tool::ToolOrigin;

/// When a call needs approval (G1), the less strict first. The words of server entries are understood too (G2):
/// `never` is `auto`, `always` and `prompt` are `always-ask`.
///
/// ```
/// use pillion_core::executor::ApprovalPolicy;
/// let policy: ApprovalPolicy = serde_json::from_str("\"prompt\"").unwrap();
/// assert_eq!(policy, ApprovalPolicy::AlwaysAsk);
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ApprovalPolicy {
    /// Never.
    #[default]
    #[serde(alias = "never")]
    Auto,
    /// Unless the tool is one of [`ApprovalRules::trusted_tools`].
    TrustedOnly,
    /// Always.
    #[serde(alias = "always", alias = "prompt")]
    AlwaysAsk,
}

/// Which tools need approval (G1, G2). By default none but those whose definition says
/// `requires_confirmation`.
///
/// The most exact policy counts: that of the tool, else that of its server, else the
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
            ToolOrigin::Mcp { server_label, .. } => self.servers.get(server_label),
            ToolOrigin::Native => None,
        };
        let means_it = |name: &String| registry.means(name, tool);
        let named = self.tools.iter().filter(|(name, _)| means_it(name));
        let strictest = named.map(|(_, policy)| policy).max();
        match strictest.or_else(of_server).unwrap_or(&self.default) {
            ApprovalPolicy::Auto => false,
            ApprovalPolicy::TrustedOnly => !self.trusted_tools.iter().any(means_it),
            ApprovalPolicy::AlwaysAsk => true,
        }
    }
}
