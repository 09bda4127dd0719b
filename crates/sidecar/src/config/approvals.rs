use std::collections::{BTreeMap, HashSet};
use std::num::{NonZeroU64, NonZeroUsize};
use std::time::Duration;

use pillion_core::executor::{ApprovalPolicy, ApprovalRules};
use serde::Deserialize;

use super::{McpServerSection, ToolSection, millis};

/// `[approvals]`: which calls somebody has to approve (G1), and for how long they may wait.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ApprovalsSection {
    /// For tools of which neither their own settings nor those of their server say anything:
    /// `auto`, `always-ask` or `trusted-only`. `PILLION__APPROVALS__POLICY`. Default `auto`.
    pub policy: ApprovalPolicy,
    /// The tools that `trusted-only` lets through. `PILLION__APPROVALS__TRUSTED_TOOLS`. Default
    /// none.
    pub trusted_tools: HashSet<String>,
    /// How long a call may wait for its decision, and an approved one to be sent again; a denied
    /// one is denied for as long. `PILLION__APPROVALS__EXPIRES_AFTER_MS`. Default 900,000 ms.
    #[serde(rename = "expires_after_ms", deserialize_with = "millis::positive")]
    pub expires_after: Duration,
    /// The longest that a caller may wait in place. `PILLION__APPROVALS__MAX_WAIT_MS`. Default
    /// 300,000 ms.
    #[serde(rename = "max_wait_ms", deserialize_with = "millis::any")]
    pub max_wait: Duration,
    /// How many calls may wait at once; of one user never more than there is room left for
    /// others. `PILLION__APPROVALS__MAX_PENDING`. Default 1,000.
    pub max_pending: NonZeroU64,
    /// Maximum number of callers of one principal (a token, or a user of this host) that wait in
    /// place for decisions, including MCP clients that are asked. Further calls end as
    /// `approval_required` at once. `PILLION__APPROVALS__MAX_WAITING`. Default 200.
    pub max_waiting: NonZeroUsize,
    /// Which MCP clients are asked in place, of those that can ask their user.
    /// `PILLION__APPROVALS__ASK_CLIENTS`. Default `deciders`.
    pub ask_clients: AskClients,
}

/// Which MCP clients are asked to decide on their own calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AskClients {
    /// Those that may decide through the API as well.
    #[default]
    Deciders,
    /// All of them: whoever may call may then decide.
    All,
    /// None.
    Nobody,
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
            ask_clients: AskClients::Deciders,
        }
    }
}

impl ApprovalsSection {
    /// The rules of the executor, with those of single tools and servers (G2).
    pub(super) fn rules(
        &self,
        tools: &BTreeMap<String, ToolSection>,
        servers: &[McpServerSection],
    ) -> ApprovalRules {
        let tools = tools.iter();
        let servers = servers.iter();
        ApprovalRules {
            default: self.policy,
            trusted_tools: self.trusted_tools.clone(),
            tools: tools
                .filter_map(|(name, tool)| Some((name.clone(), tool.require_approval?)))
                .collect(),
            servers: servers
                .filter_map(|server| Some((server.label().to_owned(), server.require_approval?)))
                .collect(),
        }
    }
}
