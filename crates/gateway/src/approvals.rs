//! Calls that wait for approval.
//!
//! Pending approvals and decisions are in the store, so both survive a restart. An approval is for
//! one call of one tool with exactly its arguments, for one user and caller, and is identified by a
//! hash of these. A repeated call finds its existing approval: pending, approved or denied. An
//! approved approval admits a single call.

mod edit;
mod elicitation;
mod failure;
mod pending_decisions;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, select_all};
use pillion_config::{ApprovalsSection, Config};
use pillion_core::executor::{
    ApprovalFuture, ApprovalRequest, Approver, ConsumeFuture, Decision, Redaction,
    WaitingCallFuture,
};
use pillion_core::store::{
    ApprovalDecision, ApprovalFilter, ApprovalRecord, CallId, CallStatus, PageRequest, Store,
    StoreError, Timestamp, Verdict,
};
use pillion_core::tool::{ErrorCode, JsonObject, ToolFailure, ToolOrigin};
use serde_json::Value;
use tokio::time::Instant;
use uuid::Uuid;

use crate::events::{Bus, Event};
pub use edit::{EditError, check_edit};
pub(crate) use pending_decisions::PendingDecisions;

/// Maximum number of approvals with one hash that are read. Usually at most one of them is valid.
const MAX_APPROVALS_PER_HASH: u32 = 20;

/// Interval at which a waiting caller checks the system clock, because the clock may be set.
const CLOCK_INTERVAL: Duration = Duration::from_secs(1);

/// The approvals, with the settings of one configuration. Cheap to clone.
#[derive(Clone)]
pub struct Approvals {
    shared: Arc<Shared>,
}

struct Shared {
    store: Option<Arc<dyn Store>>,
    section: ApprovalsSection,
    redaction: Redaction,
    pending: Arc<PendingDecisions>,
    events: Arc<Bus>,
}

/// The approval that a call requires.
struct RequiredApproval {
    hash: String,
    named: Option<String>,
}

impl RequiredApproval {
    fn for_request(request: &ApprovalRequest) -> Self {
        Self {
            hash: request.id.clone(),
            named: request.context.approval.named.clone(),
        }
    }
}

impl Approvals {
    /// Creates the approvals over a store, with the decisions that calls wait for.
    pub fn new(
        config: &Config,
        store: Option<Arc<dyn Store>>,
        pending: Arc<PendingDecisions>,
        events: Arc<Bus>,
    ) -> Self {
        let shared = Shared {
            store,
            section: config.approvals.clone(),
            redaction: config.call_log.redact.clone(),
            pending,
            events,
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    /// Returns which values approvers do not see.
    pub fn redaction(&self) -> &Redaction {
        &self.shared.redaction
    }

    /// Returns the section `approvals` of the configuration.
    pub fn section(&self) -> &ApprovalsSection {
        &self.shared.section
    }

    /// Stores a decision, which also applies to waiting and repeated calls. If an approval is
    /// decided twice, the first decision counts.
    ///
    /// # Errors
    /// `not_found`; `conflict` if the approval was already decided or has expired.
    pub async fn decide(
        &self,
        store: &dyn Store,
        id: &str,
        decision: &ApprovalDecision,
    ) -> Result<ApprovalRecord, StoreError> {
        store.decide_approval(id, decision).await?;
        self.shared.pending.poll_now(id);
        let found = store.approval(id).await?;
        let record = found.ok_or_else(|| StoreError::not_found("the approval was removed"))?;
        self.shared.events.publish(&Event::ApprovalDecided(&record));
        tracing::info!(
            approval.id = id, tool.name = %record.tool, decided_by = %decision.by,
            "A tool call was {}", decision.verdict.as_str()
        );
        if let (Verdict::Denied, Some(call)) = (decision.verdict, record.call) {
            let denied = failure::denied(&record);
            close_call(store, call, CallStatus::Denied, denied, decision.at).await;
        }
        Ok(record)
    }

    /// Returns the approval that is currently valid for the call, if any.
    async fn find_valid(
        &self,
        store: &dyn Store,
        required: &RequiredApproval,
    ) -> Result<Option<ApprovalRecord>, ToolFailure> {
        let now = Timestamp::now();
        let fits = |record: &ApprovalRecord| {
            record.arguments_hash == required.hash && record.is_valid(now)
        };
        if let Some(id) = &required.named {
            let named = store.approval(id).await.map_err(failure::store_failure)?;
            if let Some(record) = named.filter(fits) {
                return Ok(Some(record));
            }
        }
        let filter = ApprovalFilter {
            arguments_hash: Some(required.hash.clone()),
            ..ApprovalFilter::default()
        };
        let request = PageRequest::first(MAX_APPROVALS_PER_HASH);
        let page = store
            .approvals(&filter, &request)
            .await
            .map_err(failure::store_failure)?;
        Ok(first_decided_or_newest(page.items.into_iter().filter(fits)))
    }

    /// Returns the approval that is currently valid for the call, or creates one.
    async fn open(
        &self,
        store: &dyn Store,
        request: &ApprovalRequest,
    ) -> Result<ApprovalRecord, ToolFailure> {
        let Shared {
            section,
            redaction,
            pending,
            events,
            ..
        } = &*self.shared;
        let _turn = pending.opening.lock().await;
        if let Some(record) = self
            .find_valid(store, &RequiredApproval::for_request(request))
            .await?
        {
            return Ok(record);
        }
        let now = Timestamp::now();
        let context = &request.context;
        let account = context.quota_account();
        let waiting = store
            .count_open_approvals(&account, now)
            .await
            .map_err(failure::store_failure)?;
        let left = section.max_pending.get().saturating_sub(waiting.all);
        // An account's pending approvals must be fewer than the free slots, so that one account
        // cannot use all of them.
        if waiting.of_account >= left {
            return Err(ToolFailure::new(
                ErrorCode::Unavailable,
                "Too many calls are waiting for approval (approvals.max_pending): try again later",
            ));
        }
        let arguments = redaction.shown(&Value::Object(request.arguments.clone()));
        let forwarded = request
            .forwarded
            .as_ref()
            .map(|forwarded| redaction.shown(forwarded));
        let server = match request.tool.origin() {
            ToolOrigin::Mcp { server_label, .. } => Some(server_label.clone()),
            _ => None,
        };
        let record = ApprovalRecord {
            id: Uuid::now_v7().to_string(),
            call: request.call,
            tool: request.tool.name().to_string(),
            server,
            arguments_hash: request.id.clone(),
            arguments: arguments.to_string(),
            user: context.user.clone(),
            user_is_verified: context.verified_user().is_some(),
            principal: context.principal.clone(),
            channel: context.channel.clone(),
            forwarded: forwarded.map(|forwarded| forwarded.to_string()),
            created_at: now,
            expires_at: now.plus(section.expires_after),
            decision: None,
            used_at: None,
        };
        let stored = store.insert_approval(&record).await;
        stored.map_err(failure::store_failure)?;
        tracing::info!(
            approval.id = %record.id, tool.name = %record.tool,
            "A tool call needs approval"
        );
        events.publish(&Event::ApprovalRequested(&record));
        Ok(record)
    }

    /// Returns the decision for a call, after waiting if necessary. The work of the store counts
    /// toward the call's deadline.
    async fn settle(
        &self,
        store: &Arc<dyn Store>,
        request: &ApprovalRequest,
    ) -> Result<Decision, ToolFailure> {
        let counted = request.clock.count();
        let record = self.open(&**store, request).await?;
        if let Some(decision) = recorded_decision(&record, request) {
            return decision;
        }
        let Shared {
            section, pending, ..
        } = &*self.shared;
        let wait = request.context.approval.wait.min(section.max_wait);
        let principal = request.context.principal.as_deref();
        let question = || elicitation::question(&self.shared.redaction, request);
        // A caller without a permit gets the approval's id at once, like a caller that does not
        // wait.
        let permit = pending.wait_permit(principal);
        let elicitation = permit.as_ref().and_then(|_| question());
        if permit.is_none() || wait.is_zero() && elicitation.is_none() {
            return Err(failure::undecided(&record, request));
        }
        drop(counted);
        self.wait(store, &record, request, elicitation, wait).await
    }

    /// Stores the decision of the caller's own user, then returns the decision that the store has.
    async fn decide_for_caller(
        &self,
        store: &dyn Store,
        record: &ApprovalRecord,
        request: &ApprovalRequest,
        verdict: Verdict,
    ) -> Result<Decision, ToolFailure> {
        let _counted = request.clock.count();
        let by = request.context.approval.decider.clone().unwrap_or_default();
        let decision = ApprovalDecision {
            verdict,
            by,
            at: Timestamp::now(),
            reason: None,
            arguments: None,
        };
        let known = match self.decide(store, &record.id, &decision).await {
            Ok(record) => Some(record),
            // If the approval is already decided, the earlier decision counts.
            Err(error) if error.is_conflict() => {
                let known = store.approval(&record.id).await;
                known.map_err(failure::store_failure)?
            }
            Err(error) => return Err(failure::store_failure(error)),
        };
        known
            .as_ref()
            .and_then(|record| recorded_decision(record, request))
            .unwrap_or_else(|| Err(failure::undecided(record, request)))
    }

    /// Uses an approval, so that the next call needs a new approval.
    async fn mark_used(
        &self,
        store: &dyn Store,
        request: &ApprovalRequest,
    ) -> Result<(), ToolFailure> {
        let required = RequiredApproval::for_request(request);
        while let Some(record) = self.find_valid(store, &required).await? {
            let verdict = record.decision.as_ref().map(|decision| decision.verdict);
            // Another approval of the same call may have other edited arguments.
            let has_arguments = edited_arguments(&record, request)? == request.edited;
            if verdict != Some(Verdict::Approved) || !has_arguments {
                break;
            }
            match store.use_approval(&record.id, Timestamp::now()).await {
                Ok(()) => {
                    // This call has a record of its own, so the call that requested the approval
                    // will never run.
                    if let Some(first) = record.call.filter(|_| record.call != request.call) {
                        let used = failure::used(&record);
                        let now = Timestamp::now();
                        close_call(store, first, CallStatus::Cancelled, used, now).await;
                    }
                    return Ok(());
                }
                Err(error) if error.is_conflict() => {}
                Err(error) => return Err(failure::store_failure(error)),
            }
        }
        // The call log has this call under the record of the call that requested the used approval.
        let request = ApprovalRequest {
            call: None,
            ..request.clone()
        };
        let record = self.open(store, &request).await?;
        Err(failure::undecided(&record, &request))
    }

    /// Waits for the decision, and for the elicitation result of the caller's own user, if one was
    /// requested.
    async fn wait(
        &self,
        store: &Arc<dyn Store>,
        record: &ApprovalRecord,
        request: &ApprovalRequest,
        mut elicitation: elicitation::PendingElicitation,
        wait: Duration,
    ) -> Result<Decision, ToolFailure> {
        let pending = &self.shared.pending;
        let mut outcome =
            std::pin::pin!(pending.outcome(&record.id, approval_reader(store, &record.id)));
        let mut closed = std::pin::pin!(pending.closed());
        let deadline = Instant::now() + wait;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let is_over = elicitation.is_none() && left.is_zero();
            if is_over || pending.is_closed() || !record.is_valid(Timestamp::now()) {
                return Err(failure::undecided(record, request));
            }
            let pause = match elicitation {
                None => left.min(CLOCK_INTERVAL),
                Some(_) => CLOCK_INTERVAL,
            };
            tokio::select! {
                known = &mut outcome => {
                    let known = known?;
                    let decision = known.as_ref().and_then(|known| recorded_decision(known, request));
                    return decision.unwrap_or_else(|| Err(failure::undecided(record, request)));
                }
                () = &mut closed => {}
                () = pillion_deadline::sleep(pause) => {}
                verdict = elicitation::verdict(&mut elicitation) => {
                    if let Some(verdict) = verdict {
                        return self.decide_for_caller(&**store, record, request, verdict).await;
                    }
                }
            }
        }
    }

    /// Waits until one of these approvals is decided, at most until `until`. Returns whether one is
    /// decided. Returns at once if the principal already has the maximum number of waiting callers.
    pub async fn wait_for_any(
        &self,
        principal: Option<&str>,
        ids: &[&str],
        until: Instant,
    ) -> bool {
        let Shared { store, pending, .. } = &*self.shared;
        let (Some(store), true) = (store, until > Instant::now() && !ids.is_empty()) else {
            return false;
        };
        let Some(_permit) = pending.wait_permit(principal) else {
            return false;
        };
        let mut until = until;
        for id in ids {
            let found = pillion_deadline::timeout_at(until, store.approval(id)).await;
            let now = Timestamp::now();
            match found {
                Ok(Ok(Some(record))) if record.is_valid(now) => {
                    if record.decision.is_some() {
                        return true;
                    }
                    let millis = record.expires_at.as_millis() - now.as_millis();
                    let left = Duration::from_millis(u64::try_from(millis).unwrap_or(0));
                    until = until.min(Instant::now() + left);
                }
                _ => return false,
            }
        }
        let outcomes = ids
            .iter()
            .map(|id| Box::pin(pending.outcome(id, approval_reader(store, id))));
        tokio::select! {
            (outcome, ..) = select_all(outcomes) => matches!(outcome, Ok(Some(_))),
            () = pending.closed() => false,
            () = pillion_deadline::sleep_until(until) => false,
        }
    }
}

/// Returns the outcome of a decided record for its call.
fn recorded_decision(
    record: &ApprovalRecord,
    request: &ApprovalRequest,
) -> Option<Result<Decision, ToolFailure>> {
    let decision = record.decision.as_ref()?;
    Some(match decision.verdict {
        Verdict::Approved => edited_arguments(record, request)
            .map(|edited| edited.map_or(Decision::Approved, Decision::Edited)),
        _ => Err(failure::denied(record)),
    })
}

/// Returns the arguments with which the approver lets the call run instead of its own.
fn edited_arguments(
    record: &ApprovalRecord,
    request: &ApprovalRequest,
) -> Result<Option<JsonObject>, ToolFailure> {
    let decision = record.decision.as_ref();
    let Some(edited) = decision.and_then(|decision| decision.arguments.as_deref()) else {
        return Ok(None);
    };
    edit::apply(&request.arguments, &record.arguments, edited)
        .map(Some)
        .ok_or_else(failure::unreadable)
}

/// Selects one of several valid approvals, which are given newest first. Two sidecars with one
/// store can create approvals concurrently: the earliest decision counts, or else the newest
/// approval.
fn first_decided_or_newest(live: impl Iterator<Item = ApprovalRecord>) -> Option<ApprovalRecord> {
    live.min_by_key(|record| {
        let decided_at = record.decision.as_ref().map(|decision| decision.at);
        (decided_at.is_none(), decided_at)
    })
}

/// Records the end of a call in the call log, if the call is still pending there.
async fn close_call(
    store: &dyn Store,
    id: CallId,
    status: CallStatus,
    failure: ToolFailure,
    at: Timestamp,
) {
    let closed = async {
        let Some(mut call) = store.find_call(id).await? else {
            return Ok(());
        };
        if call.status != CallStatus::Pending {
            return Ok(());
        }
        call.status = status;
        call.completed_at = Some(at);
        call.error = Some(failure.message);
        call.error_code = Some(failure.code);
        store.record_waiting_call(call).await
    };
    match closed.await {
        Err(error) if !error.is_conflict() => {
            tracing::warn!(
                call.record = %id, %error,
                "Cannot record in the call log that a call stopped waiting for approval"
            );
        }
        _ => {}
    }
}

impl Approver for Approvals {
    fn decide(&self, request: ApprovalRequest) -> ApprovalFuture {
        let this = self.clone();
        Box::pin(async move {
            match &this.shared.store {
                Some(store) => this.settle(store, &request).await,
                None => elicitation::alone(&this.shared.redaction, &request).await,
            }
        })
    }

    fn waiting_call(&self, request: &ApprovalRequest) -> WaitingCallFuture {
        let (this, required) = (self.clone(), RequiredApproval::for_request(request));
        Box::pin(async move {
            let Some(store) = &this.shared.store else {
                return Ok(None);
            };
            let live = this.find_valid(&**store, &required).await?;
            Ok(live.and_then(|record| record.call))
        })
    }

    fn spend(&self, request: &ApprovalRequest) -> ConsumeFuture {
        let (this, request) = (self.clone(), request.clone());
        Box::pin(async move {
            match &this.shared.store {
                Some(store) => this.mark_used(&**store, &request).await,
                None => Ok(()),
            }
        })
    }
}

impl std::fmt::Debug for Approvals {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Approvals")
            .field("section", &self.shared.section)
            .finish_non_exhaustive()
    }
}

/// Returns a function that reads one approval from the store.
fn approval_reader(
    store: &Arc<dyn Store>,
    id: &str,
) -> impl Fn() -> BoxFuture<'static, Result<Option<ApprovalRecord>, StoreError>> + Send + use<> {
    let (store, id) = (Arc::clone(store), id.to_owned());
    move || {
        let (store, id) = (Arc::clone(&store), id.clone());
        Box::pin(async move { store.approval(&id).await })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use pillion_core::store::ApprovalStore;

    use super::*;
    use crate::test_support::{approval, memory_store};

    #[tokio::test]
    async fn g3_the_first_decided_of_two_approvals_of_one_call_counts() {
        let store = memory_store().await;
        let approvals = Approvals::new(&Config::default(), None, Arc::default(), Arc::default());
        let required = RequiredApproval {
            hash: "hash".to_owned(),
            named: None,
        };
        let live = async || {
            let live = approvals.find_valid(&*store, &required).await.unwrap();
            live.map(|record| record.id)
        };
        for (second, id) in (0..).zip(["a", "b", "c"]) {
            let record = approval(id, Duration::from_secs(second));
            store.insert_approval(&record).await.unwrap();
        }
        assert_eq!(live().await.as_deref(), Some("c"));
        let now = Timestamp::now();
        for (seconds, id, verdict) in [(1, "b", Verdict::Denied), (0, "a", Verdict::Approved)] {
            let decision = ApprovalDecision {
                verdict,
                by: "alice".to_owned(),
                at: now.plus(Duration::from_secs(seconds)),
                reason: None,
                arguments: None,
            };
            store.decide_approval(id, &decision).await.unwrap();
            assert_eq!(live().await.as_deref(), Some(id));
        }
        // The approval admits one call; after that, the denial counts.
        store.use_approval("a", now).await.unwrap();
        assert_eq!(live().await.as_deref(), Some("b"));
    }
}
