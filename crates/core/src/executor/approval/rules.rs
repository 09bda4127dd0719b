use std::collections::{HashMap, HashSet};

use serde::Deserialize;

use crate::executor::ToolSettings;
use crate::registry::{RegisteredTool, ToolRegistry};
use crate::tool::ApprovalPolicy;

/// Determines which tools need approval. By default, only tools whose definition sets
/// `requires_confirmation` need approval.
///
/// The most specific policy applies: the policy in `tools`, else the policy in `servers`, else the
/// tool's own policy ([`Tool::approval_policy`](crate::tool::Tool::approval_policy)), else the
/// default. In `tools`, a tool can also be named by an alias; if several entries name the same
/// tool, the strictest policy applies. A tool with `requires_confirmation` always needs approval.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "an object")]
pub struct ApprovalRules {
    /// Policy for tools that neither `tools` nor `servers` names, and for which
    /// [`Tool::approval_policy`](crate::tool::Tool::approval_policy) returns `None`.
    pub default: ApprovalPolicy,
    /// Names of tools that need no approval under [`ApprovalPolicy::TrustedOnly`].
    pub trusted_tools: HashSet<String>,
    /// Policies of individual tools, by name.
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
        let server_policy = || self.servers.get(tool.origin().server_label()?).copied();
        let tool_policy = || tool.tool().approval_policy();
        let matching_policies = self.tools.matching(|name, is_in_any_case| {
            if is_in_any_case {
                registry.resolves_to_in_any_case(name, tool)
            } else {
                registry.resolves_to(name, tool)
            }
        });
        let strictest_policy = matching_policies.copied().max();
        let policy = strictest_policy.or_else(server_policy).or_else(tool_policy);
        match policy.unwrap_or(self.default) {
            ApprovalPolicy::Auto => false,
            ApprovalPolicy::TrustedOnly => {
                let mut trusted_names = self.trusted_tools.iter();
                !trusted_names.any(|name| registry.resolves_to(name, tool))
            }
            ApprovalPolicy::AlwaysAsk => true,
        }
    }
}
