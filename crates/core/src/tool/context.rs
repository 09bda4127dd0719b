use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::{ActsAs, FurtherCalls, JsonObject, Link, Nesting, ToolFilter, TraceContext};
use crate::store::CallId;

/// Who calls, and from where: what a tool may know beside its arguments (requirement C1).
///
/// ```
/// use pillion_core::tool::CallContext;
/// let context = CallContext::for_user("alice");
/// assert_eq!(context.user.as_deref(), Some("alice"));
/// ```
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CallContext {
    /// The user on whose behalf the call runs. Cooldowns and rate limits count per user;
    /// calls without one are counted together.
    pub user: Option<String>,
    /// Whether whoever let the call in vouches for the user: what is the user's own, such as a
    /// credential, is used for such a call alone. A name that a caller merely claims will do for
    /// everything else.
    pub is_user_vouched: bool,
    /// The channel or conversation the call came from.
    pub channel: Option<String>,
    /// Who was let in at the door that the call came through: the name of a token, or the
    /// number of a local user. None where there is no such door.
    pub principal: Option<String>,
    /// What else the outcome may hang on, beside the tool and its arguments: a result is kept
    /// for calls of the same variant alone.
    pub variant: Option<String>,
    /// The door or the program that the call came through, for the call log.
    pub caller: Option<String>,
    /// The id of the call; the executor sets it before the tool sees the context.
    pub call_id: String,
    /// As whom the tool was to act when the call was let in, where that is not the same for
    /// everybody ([`Tool::acts_as`](super::Tool::acts_as)). The executor sets it before anybody
    /// is asked to approve of the call.
    pub acts_as: Option<ActsAs>,
    /// The id that the call log is to know the call by; a new one by default. When the tool
    /// runs, the one that the call log has.
    pub record: Option<CallId>,
    /// Which tools the caller may use; every one where there is none. Whoever lets a call in has
    /// looked at the call itself; the executor holds those to it that its tool makes.
    pub may_use: Option<ToolFilter>,
    /// Where the call stands, if another call has made it.
    pub nesting: Option<Arc<Nesting>>,
    /// How a tool that [makes calls](super::Tool::makes_calls) does so; the executor sets it
    /// before such a tool runs.
    pub further_calls: Option<FurtherCalls>,
    /// The ids of approvals that were given (G3): calls with these ids run.
    pub approved: HashSet<String>,
    /// The ids of approvals that were refused: calls with these ids end as `denied`.
    pub denied: HashSet<String>,
    /// What the caller says of the approval that the call may need.
    pub approval: ApprovalWish,
    /// Whatever else the caller wants its tools to see.
    pub extra: JsonObject,
    /// The way back to the caller, where the call came through a door that has one.
    pub link: Option<Link>,
    /// The trace that the call belongs to; a tool of an MCP server tells its server.
    pub trace: Option<TraceContext>,
}

impl CallContext {
    /// A context that names its user and nothing else.
    #[must_use]
    pub fn for_user(user: impl Into<String>) -> Self {
        Self {
            user: Some(user.into()),
            ..Self::default()
        }
    }

    /// The user, if the call may use what is the user's own.
    #[must_use]
    pub fn vouched_user(&self) -> Option<&str> {
        self.user.as_deref().filter(|_| self.is_user_vouched)
    }

    /// Who the caller is to a tool. What a tool did for one is another's only if everybody may have it.
    pub(crate) fn of_own_call(&self) -> Value {
        json!({
            "principal": self.principal,
            "user": self.user,
            "vouched": self.is_user_vouched,
        })
    }

    /// All of the caller that the calls may hang on which a tool makes in its name: two calls of
    /// such a tool have nothing in common where this differs.
    pub(crate) fn of_nested_calls(&self) -> Value {
        let mut caller = self.of_own_call();
        caller["channel"] = json!(self.channel);
        caller["may_use"] = json!(self.may_use.as_ref().map(ToolFilter::fingerprint));
        caller
    }
}

/// What a caller says of the approval that its call may need, for an approver that keeps
/// approvals (G3).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ApprovalWish {
    /// The approval that the call is to use, by its id.
    pub named: Option<String>,
    /// How long the caller waits for a decision.
    pub wait: Duration,
    /// Who the caller is, if it may decide itself: then it may be asked.
    pub decider: Option<String>,
}
