use std::collections::HashSet;

use pillion_core::tool::ApprovalPolicy;
use serde::Deserialize;
use serde_json::Value;

use crate::exception;
use crate::zend::Result;

const REQUIRE_APPROVAL: &str = "require_approval";

/// The option `require_approval` of a server entry.
#[derive(Debug, Clone, Default)]
pub enum RequireApproval {
    /// The entry has no option `require_approval`.
    #[default]
    Unset,
    /// One policy for all tools of the server.
    AllTools(ApprovalPolicy),
    /// The lists of tool names `always` and `never`, as in OpenAI's API.
    ///
    /// - A tool in `always` requires approval, even if `never` also contains the tool.
    /// - A tool that only `never` contains requires no approval.
    /// - A tool in neither list requires approval if the option has a list `never`. Otherwise, the
    ///   option sets no policy for the tool.
    ByToolName(ToolNameFilters),
}

/// The lists of tool names in `require_approval`. The names are the tools' names on the server.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolNameFilters {
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
    pub fn from_entry(entry: &Value) -> Result<Self> {
        let require_approval = match entry.get(REQUIRE_APPROVAL) {
            None | Some(Value::Null) => Some(Self::Unset),
            Some(policy @ Value::String(_)) => {
                ApprovalPolicy::deserialize(policy).ok().map(Self::AllTools)
            }
            Some(filters @ Value::Object(_)) => ToolNameFilters::deserialize(filters)
                .ok()
                .filter(|filters| filters.always.is_some() || filters.never.is_some())
                .map(Self::ByToolName),
            Some(_) => None,
        };
        require_approval.ok_or_else(|| {
            exception::invalid_input(
                "The server's 'require_approval' must be always, prompt, never or a policy (auto, always-ask, \
                 trusted-only), or lists of names: ['always' => ['tool_names' => [...]], 'never' => ['tool_names' => [...]]]",
            )
        })
    }

    /// Returns the policy for the PHP tool with the name `tool`. A PHP tool that the lists do not
    /// name requires approval, because it is unknown which tool of the server the PHP code calls.
    pub fn policy_for_php_tool(&self, tool: &str) -> Option<ApprovalPolicy> {
        let policy = self.policy_for(tool);
        match self {
            Self::ByToolName(_) => policy.or(Some(ApprovalPolicy::AlwaysAsk)),
            Self::Unset | Self::AllTools(_) => policy,
        }
    }

    /// Returns the policy for a tool, given by its name on the server.
    pub fn policy_for(&self, tool: &str) -> Option<ApprovalPolicy> {
        let filters = match self {
            Self::Unset => return None,
            Self::AllTools(policy) => return Some(*policy),
            Self::ByToolName(filters) => filters,
        };
        let contains_tool = |filter: &Option<ToolNameFilter>| {
            let names = filter.as_ref().map(|filter| &filter.tool_names);
            names.is_some_and(|names| names.contains(tool))
        };
        match (
            contains_tool(&filters.always),
            contains_tool(&filters.never),
        ) {
            (true, _) => Some(ApprovalPolicy::AlwaysAsk),
            (false, true) => Some(ApprovalPolicy::Auto),
            (false, false) => filters.never.as_ref().map(|_| ApprovalPolicy::AlwaysAsk),
        }
    }
}

/// Returns the value of the option `require_approval` that expresses a policy.
pub fn policy_name(policy: ApprovalPolicy) -> &'static str {
    match policy {
        ApprovalPolicy::Auto => "never",
        ApprovalPolicy::AlwaysAsk => "always",
        ApprovalPolicy::TrustedOnly => "trusted-only",
    }
}
