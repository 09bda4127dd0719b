use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::{
    ActingIdentity, JsonObject, Link, NestedCallHandle, Nesting, QuotaAccount, ResultMemory,
    ToolFilter, TraceContext,
};
use crate::call_id::CallId;

/// The caller and circumstances of a call: what a tool can know besides its arguments.
///
/// ```
/// use pillion_core::tool::CallContext;
/// let context = CallContext::for_user("alice");
/// assert_eq!(context.user.as_deref(), Some("alice"));
/// ```
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CallContext {
    /// The user on whose behalf the call runs. Cooldowns and rate limits count per user, or per
    /// principal if an authenticated principal's user is not verified. Calls with neither count as
    /// calls of one user.
    pub user: Option<String>,
    /// Whether the user is verified. Only calls of a verified user may use what belongs to that
    /// user, such as a credential. For everything else, a claimed user name is sufficient.
    pub is_user_verified: bool,
    /// The channel or conversation of the call.
    pub channel: Option<String>,
    /// The authenticated principal: the name of an access token, or the ID of a local user. `None`
    /// for interfaces without authentication.
    pub principal: Option<String>,
    /// A value that represents anything else on which the result depends. A cached result is used
    /// only for calls with the same variant.
    pub variant: Option<String>,
    /// The interface or program that the call came through, for the call log.
    pub caller: Option<String>,
    /// The ID of the call. The executor sets the ID before the tool runs.
    pub call_id: String,
    /// The deadline of the call, extended while a nested call waits for an approval. The executor
    /// sets the deadline before the tool runs.
    pub deadline: Option<Instant>,
    /// The tool's acting identity for this call, if the identity depends on the caller
    /// ([`Tool::acting_identity`](super::Tool::acting_identity)). The executor sets the identity
    /// before it requests an approval.
    pub acting_identity: Option<ActingIdentity>,
    /// The ID to use for the call's record in the call log; `None` for a new ID. When the tool
    /// runs, contains the ID of the actual record.
    pub record: Option<CallId>,
    /// The tools that the caller may use; `None` means all. The program that passes a call to the
    /// executor must check that call against this filter; the executor checks only nested calls.
    pub may_use: Option<ToolFilter>,
    /// The nesting of the call: its parent and its depth in the tree of calls; `None` if no other
    /// call made the call.
    pub nesting: Option<Arc<Nesting>>,
    /// Runs nested calls. The executor sets this field before it runs a tool that [makes
    /// calls](super::Tool::makes_calls).
    pub nested_calls: Option<NestedCallHandle>,
    /// IDs of granted approvals. A call runs if its approval has one of these IDs.
    pub approved: HashSet<String>,
    /// Arguments that approvers set in place of the arguments of the approved calls, by the ID of
    /// the approval.
    pub approved_arguments: HashMap<String, JsonObject>,
    /// IDs of denied approvals. A call ends as `denied` if its approval has one of these IDs.
    pub denied: HashSet<String>,
    /// The ID of the approval under which the call runs, if the call needed one. The executor sets
    /// the ID before the tool runs. A tool that runs under an approval must not use any data of the
    /// caller that the approval does not cover ([`Tool::forwarded`](super::Tool::forwarded)).
    pub approval_id: Option<String>,
    /// Options of the approval that the call may need.
    pub approval: ApprovalRequestOptions,
    /// Whether a model has written the arguments. If so, the executor repairs arguments that do not
    /// match the tool's schema, where the schema shows what the model meant
    /// ([`ToolResult::REPAIRED_ARGUMENTS`](super::ToolResult::REPAIRED_ARGUMENTS)).
    pub is_by_model: bool,
    /// Further data of the application, for its tools.
    pub extra: JsonObject,
    /// The link to the caller for progress and elicitation, if the interface supports either.
    pub link: Option<Link>,
    /// The memory for the call's result, if the interface limits that memory. `None` for nested
    /// calls, because only results that the caller gets are counted.
    pub result_memory: Option<ResultMemory>,
    /// The trace of the call. Tools of MCP servers forward the trace context to their server.
    pub trace: Option<TraceContext>,
}

impl CallContext {
    /// Creates a context with only a user, who is not verified.
    #[must_use]
    pub fn for_user(user: impl Into<String>) -> Self {
        Self {
            user: Some(user.into()),
            ..Self::default()
        }
    }

    /// Returns the user if the user is verified.
    #[must_use]
    pub fn verified_user(&self) -> Option<&str> {
        self.user.as_deref().filter(|_| self.is_user_verified)
    }

    /// Returns the account to which the call belongs for the turns in the queue, the rate limits
    /// and the number of pending approvals.
    #[must_use]
    pub fn quota_account(&self) -> QuotaAccount {
        let (user, principal) = (self.user.as_deref(), self.principal.as_deref());
        QuotaAccount::new(user, self.is_user_verified, principal)
    }

    /// Returns the caller's identity as tools see it, which is part of the cache key of private
    /// results.
    pub(crate) fn caller_identity(&self) -> Value {
        json!({
            "principal": self.principal,
            "user": self.user,
            "user_verified": self.is_user_verified,
        })
    }

    /// Returns the caller's identity as nested calls see it, with everything on which the results
    /// of nested calls can depend. Two callers share the private results of a tool that makes calls
    /// only if this method returns equal values for both callers.
    pub(crate) fn nested_call_identity(&self) -> Value {
        let mut caller = self.caller_identity();
        caller["channel"] = json!(self.channel);
        caller["may_use"] = json!(self.may_use.as_ref().map(ToolFilter::fingerprint));
        caller
    }
}

/// Options of the approval that a call may need, for an approver that stores approvals.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ApprovalRequestOptions {
    /// The ID of an existing approval that the call wants to use.
    pub named: Option<String>,
    /// How long the caller waits for a decision.
    pub wait: Duration,
    /// The name under which the caller decides on its own calls, if the caller may do so and can be
    /// prompted for a decision.
    pub decider: Option<String>,
}
