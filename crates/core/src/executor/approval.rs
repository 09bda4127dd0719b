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

use super::record::Entry;
use crate::registry::RegisteredTool;
use crate::store::CallId;
pub use crate::tool::ApprovalPolicy;
use crate::tool::{CallContext, ErrorCode, JsonObject, ToolFailure};
pub use clock::{CountedWork, DecisionClock};
pub use rules::ApprovalRules;

/// A call that needs a decision.
#[derive(Debug, Clone)]
pub struct ApprovalRequest {
    /// The ID of the approval: 64 hexadecimal digits. Two calls have the same ID only if they have
    /// the same tool, arguments, forwarded parameters, user, channel and acting identity. For an
    /// unverified user, the ID also depends on the principal. The ID is not a secret: every client
    /// can compute it.
    pub id: String,
    /// The tool that runs if the call is approved.
    pub tool: Arc<RegisteredTool>,
    /// The arguments of the call, validated and with defaults filled in.
    pub arguments: JsonObject,
    /// The data that the tool gets from the caller besides the arguments, formatted for the
    /// approver.
    pub forwarded: Option<Value>,
    /// The context of the call, with `call_id` set.
    pub context: CallContext,
    /// The ID of the waiting call's record in the call log; `None` if the executor has no call log.
    pub call: Option<CallId>,
    /// The changed arguments, if the approver has decided [`Decision::Edited`]. [`Approver::spend`]
    /// must fail if the stored approval has different arguments.
    pub edited_arguments: Option<JsonObject>,
    /// The clock of the call, which is paused while the approver decides.
    pub clock: DecisionClock,
}

/// The decision on an [`ApprovalRequest`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Decision {
    /// The call runs with its own arguments.
    Approved,
    /// The call runs with the contained arguments in place of the original arguments. The executor
    /// validates the contained arguments against the tool's schema.
    Edited(JsonObject),
    /// The call does not run, and ends as `denied`.
    Denied,
    /// There is no decision yet. The call ends as `approval_required`, with `approval_id` and
    /// `arguments` in the result's metadata, and can be repeated once there is a decision.
    Undecided,
}

/// The return type of [`Approver::decide`].
pub type ApprovalFuture = Pin<Box<dyn Future<Output = Result<Decision, ToolFailure>> + Send>>;

/// The return type of [`Approver::waiting_call`].
pub type WaitingCallFuture =
    Pin<Box<dyn Future<Output = Result<Option<CallId>, ToolFailure>> + Send>>;

/// The return type of [`Approver::spend`].
pub type SpendFuture = Pin<Box<dyn Future<Output = Result<(), ToolFailure>> + Send>>;

/// Decides on calls that need approval, or forwards them to a person who decides.
///
/// The executor asks the approver only if the approval rules require an approval and the call's
/// context contains no decision. An approver can wait for a decision: the time that
/// [`decide`](Self::decide) takes counts toward no deadline, except for work that the approver
/// [counts](DecisionClock::count). An approver can instead store the request and return
/// [`Decision::Undecided`]; a later call with the same ID then gets the decision. For all other
/// methods of the approver, the executor waits at most until the call's deadline.
pub trait Approver: Send + Sync + 'static {
    /// Decides on a request. A failure ends the call with that failure; the tool does not run.
    fn decide(&self, request: ApprovalRequest) -> ApprovalFuture;

    /// Returns the recorded call that already waits for the decision on `request`, if any. The new
    /// call then continues the record of the returned call instead of adding a record.
    ///
    /// If the request stays undecided, the executor calls this method again. The new call's record
    /// stays pending only if this method then returns the ID of that record; otherwise the new call
    /// is recorded as `error`. The default implementation returns `None`.
    fn waiting_call(&self, request: &ApprovalRequest) -> WaitingCallFuture {
        let _ = request;
        Box::pin(async { Ok(None) })
    }

    /// Uses up an approval that [`decide`](Self::decide) granted, as the last step before the tool
    /// runs. A failure ends the call with that failure: `approval_required` if another call has used
    /// up the approval. The default implementation does nothing, for approvals that are valid for
    /// any number of calls.
    fn spend(&self, request: &ApprovalRequest) -> SpendFuture {
        let _ = request;
        Box::pin(async { Ok(()) })
    }
}

/// The approval of a call that needed one.
pub(super) struct GrantedApproval {
    pub(super) id: String,
    /// The approval request that the approver approved; `None` if the call's context contained the
    /// decision.
    pub(super) request: Option<Box<ApprovalRequest>>,
    /// The arguments that the approver set in place of the original arguments.
    pub(super) edited_arguments: Option<JsonObject>,
    /// The time that it took to obtain the approval, without the wait for a person's decision.
    pub(super) elapsed: Duration,
}

/// Returns the failure of a call whose approver did not respond before the call's deadline.
pub(super) fn late_failure() -> ToolFailure {
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
    let outcome = timeout_at(deadline, approver.spend(request))
        .await
        .unwrap_or_else(|_| Err(late_failure()));
    if let (Ok(()), Some(entry)) = (&outcome, entry) {
        entry.mark_approved();
    }
    outcome
}

/// Obtains the approval of a call; returns `None` if the approval rules require no approval. A
/// denial in the call's context takes precedence over everything else; an approval in the context
/// takes precedence over the approver. Fails at `deadline`, which is extended by the time that a
/// person takes to decide.
pub(super) async fn obtain(
    needs_approval: bool,
    approver: Option<&dyn Approver>,
    tool: &Arc<RegisteredTool>,
    arguments: &JsonObject,
    context: &CallContext,
    deadline: Instant,
    entry: Option<&mut Entry>,
) -> Result<Option<GrantedApproval>, ToolFailure> {
    let forwarded = tool.tool().forwarded(context)?;
    let id = id::compute(tool, arguments, context, forwarded.as_ref());
    let mut approved_request = None;
    let mut elapsed = Duration::ZERO;
    let decision = if context.denied.contains(&id) {
        Decision::Denied
    } else if !needs_approval || context.approved.contains(&id) {
        match context.approved_arguments.get(&id) {
            Some(arguments) if needs_approval => Decision::Edited(arguments.clone()),
            _ => Decision::Approved,
        }
    } else if let Some(approver) = approver {
        let mut request = ApprovalRequest {
            id: id.clone(),
            tool: Arc::clone(tool),
            arguments: arguments.clone(),
            forwarded: forwarded.map(|forwarded| forwarded.parameters),
            context: context.clone(),
            call: None,
            edited_arguments: None,
            clock: DecisionClock::for_nesting(context.nesting.as_deref()),
        };
        // The approval request does not contain the connection of the acting identity: an approver
        // may store the request, which would keep the user's connection open.
        if let Some(acting_identity) = &mut request.context.acting_identity {
            acting_identity.connection = None;
        }
        let started_at = Instant::now();
        let clock = request.clock.clone();
        let decision_outcome = tokio::select! {
            biased;
            decision_outcome = decide(approver, &mut request, entry) => decision_outcome,
            () = clock.wait_until(deadline) => Err(late_failure()),
        };
        elapsed = started_at.elapsed().saturating_sub(clock.paused_time());
        approved_request = Some(Box::new(request));
        decision_outcome?
    } else {
        Decision::Undecided
    };
    let is_undecided = decision == Decision::Undecided;
    let (code, reason) = match decision {
        Decision::Approved | Decision::Edited(_) => {
            let edited_arguments = match decision {
                Decision::Edited(arguments) => Some(arguments),
                _ => None,
            };
            if let Some(request) = &mut approved_request {
                request.edited_arguments.clone_from(&edited_arguments);
            }
            let granted_approval = GrantedApproval {
                id,
                request: approved_request,
                edited_arguments,
                elapsed,
            };
            return Ok(needs_approval.then_some(granted_approval));
        }
        Decision::Denied => (ErrorCode::Denied, "was denied"),
        Decision::Undecided => (ErrorCode::ApprovalRequired, "needs approval"),
    };
    let message = format!("The call to tool '{}' {reason}", tool.name());
    let failure = ToolFailure::new(code, message).with_metadata("approval_id", json!(id));
    Err(if is_undecided {
        // The failure contains the arguments, because the person who decides needs to see them.
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
        // If the call's context prescribes the ID of the call's record, the call does not continue
        // an earlier record.
        if request.context.record.is_none()
            && let Some(call) = approver.waiting_call(request).await?
        {
            entry.continue_record(call);
        }
        entry.record_pending().await?;
        request.call = Some(entry.id());
    }
    let decision_outcome = {
        let _pauses = request.clock.pause();
        approver.decide(request.clone()).await
    };
    if let (true, Some(entry)) = (is_undecided(&decision_outcome), entry) {
        // The record must not stay pending unless the open approval names the record, because
        // nothing else would complete the record.
        let waiting_call = approver.waiting_call(request).await?;
        entry.set_waiting(waiting_call == Some(entry.id()));
    }
    decision_outcome
}

fn is_undecided(decision_outcome: &Result<Decision, ToolFailure>) -> bool {
    match decision_outcome {
        Ok(decision) => *decision == Decision::Undecided,
        Err(failure) => failure.code == ErrorCode::ApprovalRequired,
    }
}

#[cfg(test)]
mod tests;
