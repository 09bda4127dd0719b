//! Calls that wait for approval.
//!
//! Pending approvals and decisions are in the store, so both survive a restart. An approval
//! admits a single call. The approval stores a hash of the call's tool, exact arguments, user and
//! further context, by which a repeated call finds its existing approval: pending, approved or
//! denied.

mod edit;
mod elicitation;
mod failure;
mod pending_decisions;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, select_all};
use pillion_config::{ApprovalsSection, Config};
use pillion_core::executor::{
    ApprovalFuture, ApprovalRequest, Approver, Decision, Redaction, SpendFuture, WaitingCallFuture,
};
use pillion_core::store::{
    ApprovalDecision, ApprovalFilter, ApprovalRecord, CallId, CallStatus, PageRequest, Store,
    StoreError, Timestamp, Verdict,
};
use pillion_core::tool::{ErrorCode, JsonObject, ToolFailure, ToolOrigin};
use serde_json::Value;
use tokio::time::Instant;
use uuid::Uuid;

use crate::events::{Event, EventBus};
pub use edit::{EditError, check_edit};
pub(crate) use pending_decisions::PendingDecisions;

/// Maximum number of approvals that are read for one hash. Usually, at most one of them is valid.
const MAX_APPROVALS_PER_HASH: u32 = 20;

/// Interval at which a waiting caller compares the approval's expiry with the system clock, because
/// the clock may be changed during the wait.
const CLOCK_INTERVAL: Duration = Duration::from_secs(1);

/// Creates, finds and decides approvals according to one configuration. Cheap to clone.
#[derive(Clone)]
pub struct Approvals {
    shared: Arc<Shared>,
}

struct Shared {
    store: Option<Arc<dyn Store>>,
    section: ApprovalsSection,
    redaction: Redaction,
    pending_decisions: Arc<PendingDecisions>,
    events: Arc<EventBus>,
}

/// The approval that a call requires.
struct RequiredApproval {
    hash: String,
    /// The ID of the approval that the call names.
    requested_id: Option<String>,
}

impl RequiredApproval {
    fn for_request(request: &ApprovalRequest) -> Self {
        Self {
            hash: request.id.clone(),
            requested_id: request.context.approval.named.clone(),
        }
    }
}

impl Approvals {
    /// Creates an `Approvals` that stores approvals in `store`. `pending_decisions` connects
    /// waiting calls with decisions.
    pub fn new(
        config: &Config,
        store: Option<Arc<dyn Store>>,
        pending_decisions: Arc<PendingDecisions>,
        events: Arc<EventBus>,
    ) -> Self {
        let shared = Arc::new(Shared {
            store,
            section: config.approvals.clone(),
            redaction: config.call_log.redact.clone(),
            pending_decisions,
            events,
        });
        Self { shared }
    }

    /// Returns the rules for redacting values that approvers must not see.
    pub fn redaction(&self) -> &Redaction {
        &self.shared.redaction
    }

    /// Returns the settings in the section `approvals` of the configuration.
    pub fn section(&self) -> &ApprovalsSection {
        &self.shared.section
    }

    /// Stores a decision, which also applies to waiting and repeated calls. If an approval is
    /// decided twice, the first decision counts.
    ///
    /// # Errors
    /// `not_found` if there is no such approval; `conflict` if the approval was already decided or
    /// has expired.
    pub async fn decide(
        &self,
        store: &dyn Store,
        id: &str,
        decision: &ApprovalDecision,
    ) -> Result<ApprovalRecord, StoreError> {
        store.decide_approval(id, decision).await?;
        self.shared.pending_decisions.wake_poll(id);
        let record = store
            .find_approval(id)
            .await?
            .ok_or_else(|| StoreError::not_found(format!("approval {id} was removed")))?;
        self.shared.events.publish(&Event::ApprovalDecided(&record));
        tracing::info!(
            approval.id = id, tool.name = %record.tool, decided_by = %decision.decider,
            "A tool call was {}", decision.verdict.as_str()
        );
        if let (Verdict::Denied, Some(call)) = (decision.verdict, record.call) {
            let failure = failure::for_denied(&record);
            let at = decision.decided_at;
            close_call(store, call, CallStatus::Denied, failure, at).await;
        }
        Ok(record)
    }

    /// Returns the approval that is currently valid for the call, if any.
    async fn find_valid(
        &self,
        store: &dyn Store,
        required_approval: &RequiredApproval,
    ) -> Result<Option<ApprovalRecord>, ToolFailure> {
        let now = Timestamp::now();
        let is_match = |record: &ApprovalRecord| {
            record.arguments_hash == required_approval.hash && record.is_valid(now)
        };
        if let Some(id) = &required_approval.requested_id {
            let approval = store
                .find_approval(id)
                .await
                .map_err(failure::for_store_error)?;
            if let Some(record) = approval.filter(is_match) {
                return Ok(Some(record));
            }
        }
        let filter = ApprovalFilter {
            arguments_hash: Some(required_approval.hash.clone()),
            ..ApprovalFilter::default()
        };
        let request = PageRequest::first(MAX_APPROVALS_PER_HASH);
        let result = store.approvals(&filter, &request).await;
        let valid_records = result
            .map_err(failure::for_store_error)?
            .items
            .into_iter()
            .filter(is_match);
        Ok(pick_decided_or_newest(valid_records))
    }

    /// Returns the approval that is currently valid for the call, or creates one.
    async fn find_or_create(
        &self,
        store: &dyn Store,
        request: &ApprovalRequest,
    ) -> Result<ApprovalRecord, ToolFailure> {
        let (section, redaction, events) = (self.section(), self.redaction(), &self.shared.events);
        let _creation_guard = self.shared.pending_decisions.creation_lock.lock().await;
        let required_approval = RequiredApproval::for_request(request);
        if let Some(record) = self.find_valid(store, &required_approval).await? {
            return Ok(record);
        }
        let now = Timestamp::now();
        let context = &request.context;
        let account = context.quota_account();
        let result = store.count_open_approvals(&account, now).await;
        let open_counts = result.map_err(failure::for_store_error)?;
        let free_slots = section.max_pending.get().saturating_sub(open_counts.total);
        // A quota account must have fewer pending approvals than there are free slots for
        // approvals, so that the calls of one quota account cannot use all slots.
        if open_counts.account_total >= free_slots {
            return Err(ToolFailure::new(
                ErrorCode::Unavailable,
                "Too many calls are waiting for approval (approvals.max_pending): try again later",
            ));
        }
        let arguments = redaction.redact(&Value::Object(request.arguments.clone()));
        let forwarded = request.forwarded.as_ref();
        let forwarded_params = forwarded.map(|params| redaction.redact(params));
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
            forwarded: forwarded_params.map(|params| params.to_string()),
            created_at: now,
            expires_at: now.plus(section.expires_after),
            decision: None,
            used_at: None,
        };
        let insert_result = store.insert_approval(&record).await;
        insert_result.map_err(failure::for_store_error)?;
        tracing::info!(
            approval.id = %record.id, tool.name = %record.tool,
            "A tool call needs approval"
        );
        events.publish(&Event::ApprovalRequested(&record));
        Ok(record)
    }

    /// Returns the decision for a call, after waiting if necessary. The time that the store takes
    /// counts toward the call's deadline.
    async fn find_or_await_decision(
        &self,
        store: &Arc<dyn Store>,
        request: &ApprovalRequest,
    ) -> Result<Decision, ToolFailure> {
        let clock_guard = request.clock.count();
        let record = self.find_or_create(&**store, request).await?;
        if let Some(decision) = recorded_decision(&record, request) {
            return decision;
        }
        let max_wait = request.context.approval.wait.min(self.section().max_wait);
        let principal = request.context.principal.as_deref();
        let request_verdict = || elicitation::request_verdict(self.redaction(), request);
        // A caller above the limit of waiting callers gets the approval's ID at once, like a caller
        // that does not wait.
        let permit = self.shared.pending_decisions.try_acquire_permit(principal);
        let elicitation = permit.as_ref().and_then(|_| request_verdict());
        if permit.is_none() || max_wait.is_zero() && elicitation.is_none() {
            return Err(failure::for_undecided(&record, request));
        }
        drop(clock_guard);
        self.wait_for_decision(store, &record, request, elicitation, max_wait)
            .await
    }

    /// Stores the decision of the caller's own user, then returns the decision in the store, which
    /// may be an earlier one.
    async fn decide_for_caller(
        &self,
        store: &dyn Store,
        record: &ApprovalRecord,
        request: &ApprovalRequest,
        verdict: Verdict,
    ) -> Result<Decision, ToolFailure> {
        let _clock_guard = request.clock.count();
        let decider = request.context.approval.decider.clone().unwrap_or_default();
        let decision = ApprovalDecision {
            verdict,
            decider,
            decided_at: Timestamp::now(),
            reason: None,
            arguments: None,
        };
        let decided_record = match self.decide(store, &record.id, &decision).await {
            Ok(record) => Some(record),
            // If the approval is already decided, the earlier decision counts.
            Err(error) if error.is_conflict() => {
                let earlier_record = store.find_approval(&record.id).await;
                earlier_record.map_err(failure::for_store_error)?
            }
            Err(error) => return Err(failure::for_store_error(error)),
        };
        let decision = decided_record.and_then(|decided| recorded_decision(&decided, request));
        decision.unwrap_or_else(|| Err(failure::for_undecided(record, request)))
    }

    /// Marks an approval as used, so that the next call needs a new approval.
    async fn mark_used(
        &self,
        store: &dyn Store,
        request: &ApprovalRequest,
    ) -> Result<(), ToolFailure> {
        let required_approval = RequiredApproval::for_request(request);
        while let Some(record) = self.find_valid(store, &required_approval).await? {
            let verdict = record.decision.as_ref().map(|decision| decision.verdict);
            // The arguments are compared, because another approval of the same call can have
            // different edited arguments.
            let has_same_arguments =
                edited_arguments(&record, request)? == request.edited_arguments;
            if verdict != Some(Verdict::Approved) || !has_same_arguments {
                break;
            }
            match store.use_approval(&record.id, Timestamp::now()).await {
                Ok(()) => {
                    // This call uses the approval of an earlier call. The earlier call will never
                    // run, so its record in the call log is closed.
                    if let Some(call) = record.call.filter(|_| record.call != request.call) {
                        let failure = failure::for_used(&record);
                        let now = Timestamp::now();
                        close_call(store, call, CallStatus::Cancelled, failure, now).await;
                    }
                    return Ok(());
                }
                Err(error) if error.is_conflict() => {}
                Err(error) => return Err(failure::for_store_error(error)),
            }
        }
        // The new approval names no record of the call log, because this call shares its record
        // with the call that requested the used approval.
        let request = ApprovalRequest {
            call: None,
            ..request.clone()
        };
        let record = self.find_or_create(store, &request).await?;
        Err(failure::for_undecided(&record, &request))
    }

    /// Waits for the decision, and for the elicitation result of the caller's own user, if one was
    /// requested.
    async fn wait_for_decision(
        &self,
        store: &Arc<dyn Store>,
        record: &ApprovalRecord,
        request: &ApprovalRequest,
        mut elicitation: elicitation::PendingVerdict,
        max_wait: Duration,
    ) -> Result<Decision, ToolFailure> {
        let pending_decisions = &self.shared.pending_decisions;
        let read_approval = approval_reader(store, &record.id);
        let wait = pending_decisions.wait_for_outcome(&record.id, read_approval);
        let mut outcome = std::pin::pin!(wait);
        let mut close_signal = std::pin::pin!(pending_decisions.wait_until_closed());
        let deadline = Instant::now() + max_wait;
        loop {
            let remaining_time = deadline.saturating_duration_since(Instant::now());
            let is_overdue = elicitation.is_none() && remaining_time.is_zero();
            if is_overdue || pending_decisions.is_closed() || !record.is_valid(Timestamp::now()) {
                return Err(failure::for_undecided(record, request));
            }
            let check_interval = match elicitation {
                None => remaining_time.min(CLOCK_INTERVAL),
                Some(_) => CLOCK_INTERVAL,
            };
            tokio::select! {
                result = &mut outcome => {
                    let decided = result?;
                    let decision = decided.and_then(|record| recorded_decision(&record, request));
                    return decision.unwrap_or_else(|| Err(failure::for_undecided(record, request)));
                }
                () = &mut close_signal => {}
                () = pillion_deadline::sleep(check_interval) => {}
                verdict = elicitation::wait_for_verdict(&mut elicitation) => {
                    if let Some(verdict) = verdict {
                        return self.decide_for_caller(&**store, record, request, verdict).await;
                    }
                }
            }
        }
    }

    /// Waits until one of the approvals `ids` is decided, at most until `end`. Returns whether
    /// an approval is decided. Returns `false` at once if the principal already has the maximum
    /// number of waiting callers.
    pub async fn wait_for_any(&self, principal: Option<&str>, ids: &[&str], end: Instant) -> bool {
        let pending_decisions = &self.shared.pending_decisions;
        let can_wait = end > Instant::now() && !ids.is_empty();
        let Some(store) = self.shared.store.as_ref().filter(|_| can_wait) else {
            return false;
        };
        let Some(_permit) = pending_decisions.try_acquire_permit(principal) else {
            return false;
        };
        let mut earliest_end = end;
        for id in ids {
            let result = pillion_deadline::timeout_at(earliest_end, store.find_approval(id)).await;
            let now = Timestamp::now();
            match result {
                Ok(Ok(Some(record))) if record.is_valid(now) => {
                    if record.decision.is_some() {
                        return true;
                    }
                    let millis = record.expires_at.as_millis() - now.as_millis();
                    let remaining_time = Duration::from_millis(u64::try_from(millis).unwrap_or(0));
                    earliest_end = earliest_end.min(Instant::now() + remaining_time);
                }
                _ => return false,
            }
        }
        let outcome_futures = ids
            .iter()
            .map(|id| Box::pin(pending_decisions.wait_for_outcome(id, approval_reader(store, id))));
        tokio::select! {
            (outcome, ..) = select_all(outcome_futures) => matches!(outcome, Ok(Some(_))),
            () = pending_decisions.wait_until_closed() => false,
            () = pillion_deadline::sleep_until(earliest_end) => false,
        }
    }
}

/// Returns the decision in `record`, as a failure if the approval was denied. Returns `None` if the
/// approval is not decided.
fn recorded_decision(
    record: &ApprovalRecord,
    request: &ApprovalRequest,
) -> Option<Result<Decision, ToolFailure>> {
    let decision = record.decision.as_ref()?;
    Some(match decision.verdict {
        Verdict::Approved => edited_arguments(record, request)
            .map(|arguments| arguments.map_or(Decision::Approved, Decision::Edited)),
        _ => Err(failure::for_denied(record)),
    })
}

/// Returns the arguments that the approver has set in place of the call's own arguments.
fn edited_arguments(
    record: &ApprovalRecord,
    request: &ApprovalRequest,
) -> Result<Option<JsonObject>, ToolFailure> {
    let decision = record.decision.as_ref();
    let Some(edited_text) = decision.and_then(|decision| decision.arguments.as_deref()) else {
        return Ok(None);
    };
    edit::apply(&request.arguments, &record.arguments, edited_text)
        .map(Some)
        .ok_or_else(failure::for_unreadable_arguments)
}

/// Selects one of several valid approvals, sorted from newest to oldest. Several exist if two
/// sidecars with one store have created approvals concurrently. Selects the approval that was
/// decided first, or the newest approval if none is decided.
fn pick_decided_or_newest(records: impl Iterator<Item = ApprovalRecord>) -> Option<ApprovalRecord> {
    records.min_by_key(|record| {
        let decided_at = record.decision.as_ref().map(|decision| decision.decided_at);
        (decided_at.is_none(), decided_at)
    })
}

/// Records the end of a call in the call log, if the call is still pending in the call log.
async fn close_call(
    store: &dyn Store,
    id: CallId,
    status: CallStatus,
    failure: ToolFailure,
    at: Timestamp,
) {
    let update = async {
        let pending_call = store
            .find_call(id)
            .await?
            .filter(|call| call.status == CallStatus::Pending);
        let Some(mut call) = pending_call else {
            return Ok(());
        };
        call.status = status;
        call.completed_at = Some(at);
        call.error = Some(failure.message);
        call.error_code = Some(failure.code);
        store.record_waiting_call(call).await
    };
    match update.await {
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
        let approvals = self.clone();
        Box::pin(async move {
            match &approvals.shared.store {
                Some(store) => approvals.find_or_await_decision(store, &request).await,
                None => elicitation::decide_without_store(approvals.redaction(), &request).await,
            }
        })
    }

    fn waiting_call(&self, request: &ApprovalRequest) -> WaitingCallFuture {
        let (approvals, required_approval) = (self.clone(), RequiredApproval::for_request(request));
        Box::pin(async move {
            let Some(store) = &approvals.shared.store else {
                return Ok(None);
            };
            let approval = approvals.find_valid(&**store, &required_approval).await?;
            Ok(approval.and_then(|record| record.call))
        })
    }

    fn spend(&self, request: &ApprovalRequest) -> SpendFuture {
        let (approvals, request) = (self.clone(), request.clone());
        Box::pin(async move {
            match &approvals.shared.store {
                Some(store) => approvals.mark_used(&**store, &request).await,
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
        Box::pin(async move { store.find_approval(&id).await })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use pillion_core::store::ApprovalStore;

    use super::*;
    use crate::test_support::{approval, decision, memory_store};

    #[tokio::test]
    async fn g3_the_first_decided_of_two_approvals_of_one_call_counts() {
        let store = memory_store().await;
        let approvals = Approvals::new(&Config::default(), None, Arc::default(), Arc::default());
        let required = RequiredApproval {
            hash: "hash".to_owned(),
            requested_id: None,
        };
        let live = async || {
            let record = approvals.find_valid(&*store, &required).await.unwrap();
            record.map(|record| record.id)
        };
        for (second, id) in (0..).zip(["a", "b", "c"]) {
            let record = approval(id, Duration::from_secs(second));
            store.insert_approval(&record).await.unwrap();
        }
        assert_eq!(live().await.as_deref(), Some("c"));
        let now = Timestamp::now();
        for (seconds, id, verdict) in [(1, "b", Verdict::Denied), (0, "a", Verdict::Approved)] {
            let decision = decision(verdict, now.plus(Duration::from_secs(seconds)));
            store.decide_approval(id, &decision).await.unwrap();
            assert_eq!(live().await.as_deref(), Some(id));
        }
        // The approval admits one call; after that, the denial counts.
        store.use_approval("a", now).await.unwrap();
        assert_eq!(live().await.as_deref(), Some("b"));
    }
}
