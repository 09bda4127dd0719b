use std::collections::{HashMap, HashSet};

use serde::Deserialize;

use crate::registry::{RegisteredTool, ToolRegistry};
use crate::tool::ToolOrigin;

/// When a call needs approval (G1). The words of server entries are understood too (G2):
/// `never` is `auto`, `always` and `prompt` are `always-ask`.
///
/// ```
/// use pillion_core::executor::ApprovalPolicy;
/// let policy: ApprovalPolicy = serde_json::from_str("\"prompt\"").unwrap();
/// assert_eq!(policy, ApprovalPolicy::AlwaysAsk);
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ApprovalPolicy {
    /// Never.
    #[default]
    #[serde(alias = "never")]
    Auto,
    /// Always.
    #[serde(alias = "always", alias = "prompt")]
    AlwaysAsk,
    /// Unless the tool is one of [`ApprovalRules::trusted_tools`].
    TrustedOnly,
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
        let of_server = || match tool.origin() {
            ToolOrigin::Mcp { server_label, .. } => self.servers.get(server_label),
            ToolOrigin::Native => None,
        };
        let named = self
            .tools
            .iter()
            .filter(|(name, _)| registry.means(name, tool))
            .map(|(_, policy)| policy)
            .max_by_key(|policy| policy.strictness());
        let policy = named.or_else(of_server).copied();
        let is_trusted = || {
            self.trusted_tools
                .iter()
                .any(|name| registry.means(name, tool))
        };
        tool.definition().requires_confirmation()
            || match policy.unwrap_or(self.default) {
                ApprovalPolicy::Auto => false,
                ApprovalPolicy::AlwaysAsk => true,
                ApprovalPolicy::TrustedOnly => !is_trusted(),
            }
    }
}

impl ApprovalPolicy {
    const fn strictness(self) -> u8 {
        match self {
            Self::Auto => 0,
            Self::TrustedOnly => 1,
            Self::AlwaysAsk => 2,
        }
    }
}
