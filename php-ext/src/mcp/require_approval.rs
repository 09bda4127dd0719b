use std::collections::HashSet;

use pillion_core::tool::ApprovalPolicy;
use serde::Deserialize;
use serde_json::Value;

use crate::exception;
use crate::zend::Failure;

const KEY: &str = "require_approval";

/// What a server entry says of approvals (requirement G2).
#[derive(Debug, Clone, Default)]
pub enum RequireApproval {
    /// Nothing.
    #[default]
    Unsaid,
    /// One policy for all tools of the server.
    All(ApprovalPolicy),
    /// As OpenAI has it: names of tools. With a list `never` all others ask, without one nothing is
    /// said of them. A tool in both asks.
    Named(Filters),
}

/// The lists, by the server's names of its tools.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Filters {
    always: Option<Filter>,
    never: Option<Filter>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Filter {
    tool_names: HashSet<String>,
}

impl RequireApproval {
    /// Reads the key of an entry as S4 has it. What cannot be read is an error, lest calls run
    /// that somebody wanted to be asked about.
    ///
    /// # Errors
    /// An `InvalidInputException`.
    pub fn of_entry(entry: &Value) -> Result<Self, Failure> {
        let read = match entry.get(KEY) {
            None | Some(Value::Null) => Some(Self::Unsaid),
            Some(policy @ Value::String(_)) => {
                ApprovalPolicy::deserialize(policy).ok().map(Self::All)
            }
            Some(filters @ Value::Object(_)) => Filters::deserialize(filters)
                .ok()
                .filter(|filters| filters.always.is_some() || filters.never.is_some())
                .map(Self::Named),
            Some(_) => None,
        };
        read.ok_or_else(|| {
            exception::invalid_input(
                "The server's 'require_approval' must be always, prompt, never or a policy (auto, always-ask, \
                 trusted-only), or lists of names: ['always' => ['tool_names' => [...]], 'never' => ['tool_names' => [...]]]",
            )
        })
    }

    /// What it says of a tool that is PHP code, by its own name. Which of the server's tools it calls is
    /// not known, so that one which the lists do not name asks.
    pub fn of_php_tool(&self, tool: &str) -> Option<ApprovalPolicy> {
        let said = self.of(tool);
        match self {
            Self::Named(_) => said.or(Some(ApprovalPolicy::AlwaysAsk)),
            Self::Unsaid | Self::All(_) => said,
        }
    }

    /// What it says of a tool, by the server's name of it.
    pub fn of(&self, tool: &str) -> Option<ApprovalPolicy> {
        let filters = match self {
            Self::Unsaid => return None,
            Self::All(policy) => return Some(*policy),
            Self::Named(filters) => filters,
        };
        let has = |filter: &Option<Filter>| {
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

/// A policy in the words of an entry.
pub fn word(policy: ApprovalPolicy) -> &'static str {
    match policy {
        ApprovalPolicy::Auto => "never",
        ApprovalPolicy::AlwaysAsk => "always",
        ApprovalPolicy::TrustedOnly => "trusted-only",
    }
}
