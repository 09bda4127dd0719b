use std::collections::HashSet;

use pillion_core::tool::ApprovalPolicy;
use serde::Deserialize;
use serde_json::Value;

use crate::exception;
use crate::zend::Failure;

const KEY: &str = "require_approval";

/// The option `require_approval` of a server entry.
#[derive(Debug, Clone, Default)]
pub enum RequireApproval {
    /// The entry has no option `require_approval`.
    #[default]
    Unset,
    /// One policy for all tools of the server.
    All(ApprovalPolicy),
    /// Lists of tool names, as in OpenAI's API. If there is a list `never`, all tools that are in
    /// no list require approval; otherwise the option sets no policy for them. A tool in both lists
    /// requires approval.
    ByName(Filters),
}

/// The lists of tool names in `require_approval`. The names are those on the server.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Filters {
    always: Option<ToolNameFilter>,
    never: Option<ToolNameFilter>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct ToolNameFilter {
    tool_names: HashSet<String>,
}

impl RequireApproval {
    /// Reads the option `require_approval` of an entry in HAWKI's format. An invalid value is an
    /// error, because otherwise calls could run without the approval that the author of the entry
    /// intended.
    ///
    /// # Errors
    /// An `InvalidInputException` if the value of the option is invalid.
    pub fn from_entry(entry: &Value) -> Result<Self, Failure> {
        let read = match entry.get(KEY) {
            None | Some(Value::Null) => Some(Self::Unset),
            Some(policy @ Value::String(_)) => {
                ApprovalPolicy::deserialize(policy).ok().map(Self::All)
            }
            Some(filters @ Value::Object(_)) => Filters::deserialize(filters)
                .ok()
                .filter(|filters| filters.always.is_some() || filters.never.is_some())
                .map(Self::ByName),
            Some(_) => None,
        };
        read.ok_or_else(|| {
            exception::invalid_input(
                "The server's 'require_approval' must be always, prompt, never or a policy (auto, always-ask, \
                 trusted-only), or lists of names: ['always' => ['tool_names' => [...]], 'never' => ['tool_names' => [...]]]",
            )
        })
    }

    /// Returns the policy for a tool in PHP code, by the name of that tool. It is unknown which
    /// tool of the server the PHP code calls, so a tool that the lists do not name requires
    /// approval.
    pub fn policy_for_php_tool(&self, tool: &str) -> Option<ApprovalPolicy> {
        let policy = self.policy_for(tool);
        match self {
            Self::ByName(_) => policy.or(Some(ApprovalPolicy::AlwaysAsk)),
            Self::Unset | Self::All(_) => policy,
        }
    }

    /// Returns the policy for a tool, by its name on the server.
    pub fn policy_for(&self, tool: &str) -> Option<ApprovalPolicy> {
        let filters = match self {
            Self::Unset => return None,
            Self::All(policy) => return Some(*policy),
            Self::ByName(filters) => filters,
        };
        let has = |filter: &Option<ToolNameFilter>| {
            let names = filter.as_ref().map(|filter| &filter.tool_names);
            names.is_some_and(|names| names.contains(tool))
        };
        match (has(&filters.always), has(&filters.never)) {
            (true, _) => Some(ApprovalPolicy::AlwaysAsk),
            (false, true) => Some(ApprovalPolicy::Auto),
            (false, false) => filters.never.as_ref().map(|_| ApprovalPolicy::AlwaysAsk),
        }
    }
}

/// Returns the value of `require_approval` for a policy.
pub fn policy_name(policy: ApprovalPolicy) -> &'static str {
    match policy {
        ApprovalPolicy::Auto => "never",
        ApprovalPolicy::AlwaysAsk => "always",
        ApprovalPolicy::TrustedOnly => "trusted-only",
    }
}
