//! Decides which calls need approval, and obtains the approval.

mod clock;
mod id;
mod rules;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use pillion_deadline::timeout_at;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::journal::Entry;
use crate::registry::RegisteredTool;
use crate::store::CallId;
pub use crate::tool::ApprovalPolicy;
use crate::tool::{CallContext, ErrorCode, JsonObject, ToolFailure};
pub use clock::{CountedWork, DecisionClock};
pub use rules::ApprovalRules;

/// A call that needs a decision.
#[derive(Debug, Clone)]
pub struct ApprovalRequest {
    /// The id of the approval: 64 hexadecimal digits. Calls of this tool with these arguments and
    /// these forwarded parameters, for this user, in this channel and under this acting identity,
    /// have this id; other calls have another id. For an unverified user, the id also depends on
    /// the principal. The id is not a secret: every client can compute it.
    pub id: String,
    /// The tool that runs if the call is approved.
    pub tool: Arc<RegisteredTool>,
    /// The arguments of the call, validated and with defaults filled in.
    pub arguments: JsonObject,
    /// What the tool gets from the caller besides the arguments, as the person who decides should
    /// see it.
    pub forwarded: Option<Value>,
    /// The context of the call, with `call_id` set.
    pub context: CallContext,
    /// The waiting call in the call log, if the executor has a call log.
    pub call: Option<CallId>,
    /// The arguments of [`Decision::Edited`], once the approver has decided so. An approver must
    /// not [spend](Approver::spend) an approval for other arguments.
    pub edited: Option<JsonObject>,
    /// The clock of the call, which is paused while the approver decides.
    pub clock: DecisionClock,
}

/// The decision on an [`ApprovalRequest`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Decision {
    /// The call runs with its own arguments.
    Approved,
    /// The call runs with these arguments instead of its own. The executor checks them against the
    /// tool's schema.
    Edited(JsonObject),
    /// The call does not run, and ends as `denied`.
    Denied,
    /// There is no decision yet. The call ends as `approval_required`, with `approval_id` and
    /// `arguments` in the result's metadata, and can be repeated once there is a decision.
    Undecided,
}

/// The return type of [`Approver::decide`].
pub type ApprovalFuture = Pin<Box<dyn Future<Output = Result<Decision, ToolFailure>> + Send>>;

/// What [`Approver::waiting_call`] returns.
pub type WaitingCallFuture =
    Pin<Box<dyn Future<Output = Result<Option<CallId>, ToolFailure>> + Send>>;

/// The return type of [`Approver::spend`].
pub type ConsumeFuture = Pin<Box<dyn Future<Output = Result<(), ToolFailure>> + Send>>;

/// Decides on calls that need approval, or forwards them to a person who decides.
///
/// The executor asks the approver only if the approval rules require an approval and the call's
/// context contains no decision. The approver may wait for a decision: the time that
/// [`decide`](Self::decide) takes counts toward no deadline, except for work that the approver
/// [counts](DecisionClock::count). Or the approver stores the request and returns
/// [`Decision::Undecided`]; a later call with the same id then gets the decision. All other methods
/// of the approver end at the call's deadline.
pub trait Approver: Send + Sync + 'static {
    /// Decides on a request. A failure ends the call with that failure; the tool does not run.
    fn decide(&self, request: ApprovalRequest) -> ApprovalFuture;

    /// Returns the recorded call that already waits for this decision, if any; the new call then
    /// continues that record instead of adding one. The executor calls this again after an
    /// undecided request: if the returned call is not the new call, the new call is recorded as
    /// `error`. The default implementation returns `None`.
    fn waiting_call(&self, request: &ApprovalRequest) -> WaitingCallFuture {
        let _ = request;
        Box::pin(async { Ok(None) })
    }

    /// Uses up an approval that [`decide`](Self::decide) granted, as the last step before the tool
    /// runs. A failure ends the call with that failure: `approval_required` if another call has used
    /// up the approval. The default implementation does nothing, for approvals that are valid for
    /// any number of calls.
    fn spend(&self, request: &ApprovalRequest) -> ConsumeFuture {
        let _ = request;
        Box::pin(async { Ok(()) })
    }
}

/// The approval of a call that needed one.
pub(super) struct GrantedApproval {
    pub(super) id: String,
    /// The request that the approver approved; `None` if the call's context contained the decision.
    pub(super) request: Option<Box<ApprovalRequest>>,
    /// The arguments with which the call runs instead of its own.
    pub(super) edited: Option<JsonObject>,
    /// How much of the call's time it took to obtain the approval, without the wait for a person.
    pub(super) took: Duration,
}

/// Returns the failure of a call whose approver did not respond before the call's deadline.
pub(super) fn late() -> ToolFailure {
    let message = "The approval could not be read or written before the call's deadline";
    ToolFailure::new(ErrorCode::Unavailable, message)
}

/// Uses up the approval of a call before the call's deadline.
pub(super) async fn spend(
    approver: &dyn Approver,
    request: &ApprovalRequest,
    deadline: Instant,
    entry: Option<&mut Entry>,
) -> Result<(), ToolFailure> {
    let spent = timeout_at(deadline, approver.spend(request))
        .await
        .unwrap_or_else(|_| Err(late()));
    if let (Ok(()), Some(entry)) = (&spent, entry) {
        entry.mark_approved();
    }
    spent
}

/// Returns the approval of a call; `None` if the approval rules require no approval. A denial in
/// the call's context takes precedence over everything else, and an approval in the context over
/// the approver. Ends at `deadline`, which is extended by the time that a person takes.
pub(super) async fn check(
    asks: bool,
    approver: Option<&dyn Approver>,
    tool: &Arc<RegisteredTool>,
    arguments: &JsonObject,
    context: &CallContext,
    deadline: Instant,
    entry: Option<&mut Entry>,
) -> Result<Option<GrantedApproval>, ToolFailure> {
    let forwarded = tool.tool().forwarded(context)?;
    let id = id::compute(tool, arguments, context, forwarded.as_ref());
    let mut approved = None;
    let mut took = Duration::ZERO;
    let decision = if context.denied.contains(&id) {
        Decision::Denied
    } else if !asks || context.approved.contains(&id) {
        let edited = context.approved_arguments.get(&id).filter(|_| asks);
        edited.map_or(Decision::Approved, |edited| {
            Decision::Edited(edited.clone())
        })
    } else if let Some(approver) = approver {
        let mut request = ApprovalRequest {
            id: id.clone(),
            tool: Arc::clone(tool),
            arguments: arguments.clone(),
            forwarded: forwarded.map(|forwarded| forwarded.shown),
            context: context.clone(),
            call: None,
            edited: None,
            clock: DecisionClock::below(context.nesting.as_deref()),
        };
        // A stored request must not keep the connection of a user open.
        if let Some(acting_identity) = &mut request.context.acting_identity {
            acting_identity.connection = None;
        }
        let began = Instant::now();
        let clock = request.clock.clone();
        let decided = tokio::select! {
            biased;
            decided = decide(approver, &mut request, entry) => decided,
            () = clock.wait_until(deadline) => Err(late()),
        };
        took = began.elapsed().saturating_sub(clock.paused());
        approved = Some(Box::new(request));
        decided?
    } else {
        Decision::Undecided
    };
    let is_undecided = decision == Decision::Undecided;
    let (code, what) = match decision {
        Decision::Approved | Decision::Edited(_) => {
            let edited = match decision {
                Decision::Edited(arguments) => Some(arguments),
                _ => None,
            };
            if let Some(request) = &mut approved {
                request.edited.clone_from(&edited);
            }
            let granted = GrantedApproval {
                id,
                request: approved,
                edited,
                took,
            };
            return Ok(asks.then_some(granted));
        }
        Decision::Denied => (ErrorCode::Denied, "was denied"),
        Decision::Undecided => (ErrorCode::ApprovalRequired, "needs approval"),
    };
    let message = format!("The call to tool '{}' {what}", tool.name());
    let failure = ToolFailure::new(code, message).with_metadata("approval_id", json!(id));
    Err(if is_undecided {
        // The person who decides needs to see the arguments.
        failure.with_metadata("arguments", json!(arguments))
    } else {
        failure
    })
}

/// Records in the call log that the call waits, and asks the approver.
async fn decide(
    approver: &dyn Approver,
    request: &mut ApprovalRequest,
    mut entry: Option<&mut Entry>,
) -> Result<Decision, ToolFailure> {
    if let Some(entry) = entry.as_deref_mut() {
        // A call with a prescribed record id keeps that id.
        if request.context.record.is_none()
            && let Some(call) = approver.waiting_call(request).await?
        {
            entry.continue_record(call);
        }
        entry.record_pending().await?;
        request.call = Some(entry.id());
    }
    let decided = {
        let _pauses = request.clock.pause();
        approver.decide(request.clone()).await
    };
    if let (true, Some(entry)) = (is_undecided(&decided), entry) {
        // A record that the open approval does not name would never be completed.
        let waiting = approver.waiting_call(request).await?;
        entry.set_waiting(waiting == Some(entry.id()));
    }
    decided
}

fn is_undecided(decided: &Result<Decision, ToolFailure>) -> bool {
    match decided {
        Ok(decision) => *decision == Decision::Undecided,
        Err(failure) => failure.code == ErrorCode::ApprovalRequired,
    }
}

#[cfg(test)]
mod tests;
