//! Which calls need somebody's approval, and who gives it (requirements G1 to G3).

mod id;
mod rules;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use serde_json::json;

use super::journal::Entry;
use crate::registry::{RegisteredTool, ToolRegistry};
use crate::store::CallId;
pub use crate::tool::ApprovalPolicy;
use crate::tool::{CallContext, ErrorCode, JsonObject, ToolFailure};
pub use rules::ApprovalRules;

/// A call that waits for a decision.
#[derive(Debug, Clone)]
pub struct ApprovalRequest {
    /// The id of the approval: 64 hexadecimal digits. Calls of this tool with these arguments, for
    /// this user and under this acting identity, have this id; other calls have another id. For an
    /// unverified user, the id also depends on the principal. The id is not a secret: every client
    /// can compute it.
    pub id: String,
    /// The tool that would run.
    pub tool: Arc<RegisteredTool>,
    /// The arguments that it would run with: checked, with defaults filled in.
    pub arguments: JsonObject,
    /// Who calls; `call_id` is set.
    pub context: CallContext,
    /// The call that waits, in the call log, if there is one.
    pub call: Option<CallId>,
}

/// What somebody said to an [`ApprovalRequest`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Decision {
    /// The call runs.
    Approved,
    /// The call ends as `denied`.
    Denied,
    /// Nobody has decided yet: the call ends as `approval_required`, and may be sent again
    /// once there is a decision. The result's metadata has `approval_id` and `arguments`.
    Undecided,
}

/// What [`Approver::decide`] returns.
pub type ApprovalFuture = Pin<Box<dyn Future<Output = Result<Decision, ToolFailure>> + Send>>;

/// What [`Approver::waiting_call`] returns.
pub type WaitingCallFuture =
    Pin<Box<dyn Future<Output = Result<Option<CallId>, ToolFailure>> + Send>>;

/// What [`Approver::spend`] returns.
pub type SpendFuture = Pin<Box<dyn Future<Output = Result<(), ToolFailure>> + Send>>;

/// Decides on calls that need approval, or passes them to somebody who does.
///
/// It is asked only if the policy wants approval and the call's context brings no decision
/// along. It may wait: the time that a person takes counts towards no deadline of the tool.
/// Or it notes the request and answers [`Decision::Undecided`], and a later call with the
/// same id finds what was decided.
pub trait Approver: Send + Sync + 'static {
    /// Decides. A failure ends the call with that failure; the tool does not run.
    fn decide(&self, request: ApprovalRequest) -> ApprovalFuture;

    /// The call of the call log that waits for this very decision already, if there is one: the
    /// new call then goes on in its place there, instead of beside it. Asked again of a call that
    /// nobody has decided on: one that is another's to wait for ends there as `error`. None unless
    /// an approver knows of any.
    fn waiting_call(&self, request: &ApprovalRequest) -> WaitingCallFuture {
        let _ = request;
        Box::pin(async { Ok(None) })
    }

    /// Uses up what [`decide`](Self::decide) has approved. It is called last before the tool
    /// runs, when nothing else can stop it any more. A failure ends the call with that failure.
    /// Does nothing unless an approval is good for one call alone.
    fn spend(&self, request: &ApprovalRequest) -> SpendFuture {
        let _ = request;
        Box::pin(async { Ok(()) })
    }
}

/// The approval that a call needed and has.
pub(super) struct Granted {
    pub(super) id: String,
    /// What the approver approved; none where the context brought the decision along.
    pub(super) request: Option<ApprovalRequest>,
}

/// Lets a call through that needs no approval or has it; the one that it needed and has. A denial wins over everything else, and a decision in the context over the approver.
pub(super) async fn pass(
    rules: &ApprovalRules,
    registry: &ToolRegistry,
    approver: Option<&dyn Approver>,
    tool: &Arc<RegisteredTool>,
    arguments: &JsonObject,
    context: &CallContext,
    mut entry: Option<&mut Entry>,
) -> Result<Option<Granted>, ToolFailure> {
    let asks = rules.asks(tool, registry);
    if !asks && context.denied.is_empty() {
        return Ok(None);
    }
    let id = id::of(tool, arguments, context);
    let mut approved = None;
    let decision = if context.denied.contains(&id) {
        Decision::Denied
    } else if !asks || context.approved.contains(&id) {
        Decision::Approved
    } else if let Some(approver) = approver {
        let mut request = ApprovalRequest {
            id: id.clone(),
            tool: Arc::clone(tool),
            arguments: arguments.clone(),
            context: context.clone(),
            call: None,
        };
        if let Some(entry) = entry.as_deref_mut() {
            // Where somebody counts on the record that the call has, it keeps that.
            if context.record.is_none()
                && let Some(call) = approver.waiting_call(&request).await?
            {
                entry.go_on_as(call);
            }
            entry.pending().await?;
            request.call = Some(entry.id());
        }
        let decided = approver.decide(request.clone()).await;
        if let (true, Some(entry)) = (is_undecided(&decided), entry) {
            // What was asked for another call, or shall be, tells of no end of this one.
            let waiting = approver.waiting_call(&request).await?;
            entry.waits(waiting == Some(entry.id()));
        }
        approved = Some(request);
        decided?
    } else {
        Decision::Undecided
    };
    let (code, what) = match decision {
        Decision::Approved => {
            let granted = Granted {
                id,
                request: approved,
            };
            return Ok(asks.then_some(granted));
        }
        Decision::Denied => (ErrorCode::Denied, "was denied"),
        Decision::Undecided => (ErrorCode::ApprovalRequired, "needs approval"),
    };
    let message = format!("The call of tool '{}' {what}", tool.name());
    let failure = ToolFailure::new(code, message).with_metadata("approval_id", json!(id));
    Err(match decision {
        // Whoever decides later has to see what would run.
        Decision::Undecided => failure.with_metadata("arguments", json!(arguments)),
        _ => failure,
    })
}

fn is_undecided(decided: &Result<Decision, ToolFailure>) -> bool {
    match decided {
        Ok(decision) => *decision == Decision::Undecided,
        Err(failure) => failure.code == ErrorCode::ApprovalRequired,
    }
}

#[cfg(test)]
mod tests;
