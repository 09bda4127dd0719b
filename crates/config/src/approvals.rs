use std::collections::{BTreeMap, HashSet};
use std::num::{NonZeroU64, NonZeroUsize};
use std::time::Duration;

use pillion_core::executor::{ApprovalPolicy, ApprovalRules, ToolSettings};
use serde::Deserialize;

use super::{McpServerSection, ToolSection, millis};

/// `[approvals]`: which tool calls need approval, and for how long they may wait.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct ApprovalsSection {
    /// The approval policy of a tool if neither the settings of the tool nor those of its server
    /// name a policy: `auto`, `always-ask` or `trusted-only`; see
    /// [Approvals](../how-to/approvals.md).
    #[cfg_attr(test, schemars(with = "String"))]
    pub policy: ApprovalPolicy,
    /// The tools that need no approval under `trusted-only`.
    pub trusted_tools: HashSet<String>,
    /// Lifetime of an approval request: how long a call may wait for its decision, how long an
    /// approved call may be sent again, and how long a denied call stays denied.
    #[serde(rename = "expires_after_ms")]
    #[serde(deserialize_with = "millis::read_positive")]
    #[cfg_attr(test, schemars(with = "u64", range(min = 1, max = millis::MAX_MS)))]
    pub expires_after: Duration,
    /// Maximum time that a request may block until its call is decided.
    #[serde(rename = "max_wait_ms", deserialize_with = "millis::read_any")]
    #[cfg_attr(test, schemars(with = "u64", range(min = 0, max = millis::MAX_MS)))]
    pub max_wait: Duration,
    /// Maximum number of calls that wait for a decision, over all users. A further call of a user
    /// is rejected if the user already has at least as many waiting calls as there are free slots
    /// (this maximum minus the waiting calls of all users).
    pub max_pending: NonZeroU64,
    /// Maximum number of requests of one principal (a token, or a user of this host) that block
    /// until their call is decided, including requests of MCP clients that ask their user. Further
    /// calls fail immediately with the error code `approval_required`.
    pub max_waiting: NonZeroUsize,
    /// Which MCP clients with elicitation support ask their user for the decision: `deciders`
    /// (clients that may also decide through the REST API), `all` or `none`.
    pub elicit_from: ElicitFrom,
}

/// Which MCP clients are asked to decide on their own calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema, serde::Serialize))]
#[serde(rename_all = "kebab-case")]
pub enum ElicitFrom {
    /// Clients that may also decide through the REST API are asked.
    #[default]
    Deciders,
    /// All clients are asked: every client that may call tools may also approve its own calls.
    All,
    /// No client is asked.
    None,
}

impl Default for ApprovalsSection {
    fn default() -> Self {
        Self {
            policy: ApprovalPolicy::Auto,
            trusted_tools: HashSet::new(),
            expires_after: Duration::from_secs(900),
            max_wait: Duration::from_secs(300),
            max_pending: NonZeroU64::new(1_000).unwrap_or(NonZeroU64::MIN),
            max_waiting: NonZeroUsize::new(200).unwrap_or(NonZeroUsize::MIN),
            elicit_from: ElicitFrom::Deciders,
        }
    }
}

impl ApprovalsSection {
    /// Returns the executor's approval rules, including those of individual tools and servers.
    pub(super) fn rules(
        &self,
        tools: &BTreeMap<String, ToolSection>,
        servers: &[McpServerSection],
    ) -> ApprovalRules {
        let mut policies = ToolSettings::default();
        for (name, tool) in tools {
            tool.apply_setting(&mut policies, name, tool.require_approval);
        }
        let server_policies = servers.iter().filter_map(|server| {
            Some((server.label().to_owned(), server.settings.require_approval?))
        });
        ApprovalRules {
            default: self.policy,
            trusted_tools: self.trusted_tools.clone(),
            tools: policies,
            servers: server_policies.collect(),
        }
    }
}
