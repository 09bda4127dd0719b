//! Calls that wait for somebody's approval (requirements G1 to G3).
//!
//! What waits is in the store, and so is what was decided: a restart changes nothing of either.
//! An approval is for one call of one tool with exactly these arguments for one user; its hash
//! says which. Who sends such a call again finds the approval that there is: open, given,
//! refused. One that was given lets a single call through.

mod asking;
mod failure;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pillion_core::executor::{
    ApprovalFuture, ApprovalRequest, Approver, Decision, Redaction, SpendFuture, WaitingCallFuture,
};
use pillion_core::store::{
    ApprovalDecision, ApprovalFilter, ApprovalRecord, CallId, CallStatus, PageRequest, Store,
    StoreError, Timestamp, Verdict,
};
use pillion_core::tool::{ErrorCode, ToolFailure, ToolOrigin};
use serde_json::Value;
use tokio::sync::{Mutex, Notify};
use tokio::time::{Instant, sleep};
use uuid::Uuid;

use crate::config::{ApprovalsSection, Config};
use crate::events::{Bus, Event};

/// How often the store is looked at for what another process decided.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How long a call waits for its turn to ask for an approval: those before it may wait for a store that
/// does not answer.
const LONGEST_TURN: Duration = Duration::from_secs(20);

/// Approvals of one hash that are looked through. There is hardly ever more than one that lives.
const LOOK_BACK: u32 = 20;

/// Where those meet who wait and those who decide; it outlives a change of the configuration.
#[derive(Debug, Default)]
pub(crate) struct Desk {
    /// Somebody has decided on something.
    decided: Notify,
    /// Held while it is found out whether an approval is there, and one is made: two calls at
    /// the same time have one between them.
    opening: Mutex<()>,
    is_closed: AtomicBool,
}

impl Desk {
    /// Nobody waits any longer: the sidecar stops. What they wait for stays in the store.
    pub(crate) fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
        self.decided.notify_waiters();
    }
}

/// The approvals under one configuration. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Approvals {
    shared: Arc<Shared>,
}

struct Shared {
    store: Option<Arc<dyn Store>>,
    section: ApprovalsSection,
    redaction: Redaction,
    desk: Arc<Desk>,
    events: Arc<Bus>,
}

/// Which approval a call needs.
struct Wanted {
    hash: String,
    named: Option<String>,
}

impl Wanted {
    fn by(request: &ApprovalRequest) -> Self {
        Self {
            hash: request.id.clone(),
            named: request.context.approval.named.clone(),
        }
    }
}

impl Approvals {
    pub(crate) fn new(
        config: &Config,
        store: Option<Arc<dyn Store>>,
        desk: Arc<Desk>,
        events: Arc<Bus>,
    ) -> Self {
        let shared = Shared {
            store,
            section: config.approvals.clone(),
            redaction: config.call_log.redact.clone(),
            desk,
            events,
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    pub(crate) fn section(&self) -> &ApprovalsSection {
        &self.shared.section
    }

    /// Decides, for whoever waits now or comes again; the first decision counts.
    ///
    /// # Errors
    /// `not_found`; `conflict` when somebody has decided before, or it has expired.
    pub(crate) async fn decide(
        &self,
        store: &dyn Store,
        id: &str,
        decision: &ApprovalDecision,
    ) -> Result<ApprovalRecord, StoreError> {
        store.decide_approval(id, decision).await?;
        self.shared.desk.decided.notify_waiters();
        let record = store.approval(id).await?;
        let record = record.ok_or_else(|| StoreError::not_found("the approval is gone"))?;
        self.shared.events.tell(&Event::ApprovalDecided(&record));
        tracing::info!(
            approval.id = id, tool.name = %record.tool, decided_by = %decision.by,
            "A call was {}", decision.verdict.as_str()
        );
        if let (Verdict::Denied, Some(call)) = (decision.verdict, record.call) {
            let denied = failure::denied(&record);
            close_call(store, call, CallStatus::Denied, denied, decision.at).await;
        }
        Ok(record)
    }

    /// The approval that counts for such calls now, if there is one.
    async fn live(
        &self,
        store: &dyn Store,
        wanted: &Wanted,
    ) -> Result<Option<ApprovalRecord>, ToolFailure> {
        let now = Timestamp::now();
        let fits =
            |record: &ApprovalRecord| record.arguments_hash == wanted.hash && record.is_live(now);
        if let Some(id) = &wanted.named {
            let named = store.approval(id).await.map_err(failure::of_store)?;
            if let Some(record) = named.filter(fits) {
                return Ok(Some(record));
            }
        }
        let filter = ApprovalFilter {
            arguments_hash: Some(wanted.hash.clone()),
            ..ApprovalFilter::default()
        };
        let page = PageRequest::first(LOOK_BACK);
        let page = store.approvals(&filter, &page).await;
        let page = page.map_err(failure::of_store)?;
        Ok(counting(page.items.into_iter().filter(fits)))
    }

    /// The approval that counts for a call, a new one if there is none.
    async fn open(
        &self,
        store: &dyn Store,
        request: &ApprovalRequest,
    ) -> Result<ApprovalRecord, ToolFailure> {
        let Shared {
            section,
            redaction,
            desk,
            events,
            ..
        } = &*self.shared;
        let turn = tokio::time::timeout(LONGEST_TURN, desk.opening.lock()).await;
        let _turn = turn.map_err(|_| {
            ToolFailure::new(ErrorCode::Unavailable, "The approvals cannot be reached")
        })?;
        if let Some(record) = self.live(store, &Wanted::by(request)).await? {
            return Ok(record);
        }
        let now = Timestamp::now();
        let user = request.context.user.as_deref();
        let waiting = store.count_open_approvals(user, now).await;
        let waiting = waiting.map_err(failure::of_store)?;
        let left = section.max_pending.get().saturating_sub(waiting.all);
        // Whoever asks for ever leaves as much room to others as they take themselves.
        if waiting.of_user >= left {
            return Err(ToolFailure::new(
                ErrorCode::Unavailable,
                "Too many calls wait for approval",
            ));
        }
        let arguments = redaction.shown(&Value::Object(request.arguments.clone()));
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
            user: request.context.user.clone(),
            created_at: now,
            expires_at: now.plus(section.expires_after),
            decision: None,
            used_at: None,
        };
        let stored = store.insert_approval(&record).await;
        stored.map_err(failure::of_store)?;
        tracing::info!(approval.id = %record.id, tool.name = %record.tool, "A call needs approval");
        events.tell(&Event::ApprovalRequested(&record));
        Ok(record)
    }

    /// What there is to say to a call now, or after as long as it waits.
    async fn settle(
        &self,
        store: &dyn Store,
        request: &ApprovalRequest,
    ) -> Result<Decision, ToolFailure> {
        let Shared { section, desk, .. } = &*self.shared;
        let record = self.open(store, request).await?;
        let mut asking = match record.decision {
            None => asking::question(&self.shared.redaction, request),
            Some(_) => None,
        };
        let deadline = Instant::now() + request.context.approval.wait.min(section.max_wait);
        loop {
            // Before the look, so that no decision falls between the two.
            let decided = desk.decided.notified();
            let known = store.approval(&record.id).await;
            let Some(known) = known.map_err(failure::of_store)? else {
                return Err(failure::undecided(&record, request));
            };
            match &known.decision {
                Some(decision) if decision.verdict == Verdict::Approved => {
                    return Ok(Decision::Approved);
                }
                Some(_) => return Err(failure::denied(&known)),
                None => {}
            }
            let left = deadline.saturating_duration_since(Instant::now());
            let is_over = asking.is_none() && left.is_zero();
            let nobody_waits = is_over || desk.is_closed.load(Ordering::Acquire);
            if nobody_waits || !known.is_live(Timestamp::now()) {
                return Err(failure::undecided(&known, request));
            }
            let pause = match asking {
                None => left.min(LOOK_EVERY),
                Some(_) => LOOK_EVERY,
            };
            tokio::select! {
                () = decided => {}
                () = sleep(pause) => {}
                verdict = asking::answer(&mut asking) => {
                    self.answered(store, &record, request, verdict).await?;
                }
            }
        }
    }

    /// Stores what the caller's own user said.
    async fn answered(
        &self,
        store: &dyn Store,
        record: &ApprovalRecord,
        request: &ApprovalRequest,
        verdict: Option<Verdict>,
    ) -> Result<(), ToolFailure> {
        let Some(verdict) = verdict else {
            return Ok(());
        };
        let by = request.context.approval.decider.clone().unwrap_or_default();
        let decision = ApprovalDecision {
            verdict,
            by,
            at: Timestamp::now(),
            reason: None,
        };
        match self.decide(store, &record.id, &decision).await {
            // Somebody else was first; what they said counts.
            Ok(_) => Ok(()),
            Err(error) if error.is_conflict() => Ok(()),
            Err(error) => Err(failure::of_store(error)),
        }
    }

    /// Uses an approval up; a second call that comes for it has to ask again.
    async fn use_up(
        &self,
        store: &dyn Store,
        request: &ApprovalRequest,
    ) -> Result<(), ToolFailure> {
        let wanted = Wanted::by(request);
        while let Some(record) = self.live(store, &wanted).await? {
            let verdict = record.decision.as_ref().map(|decision| decision.verdict);
            if verdict != Some(Verdict::Approved) {
                break;
            }
            match store.use_approval(&record.id, Timestamp::now()).await {
                Ok(()) => {
                    // A call with a record of its own: the one that asked will never run.
                    if let Some(first) = record.call.filter(|_| record.call != request.call) {
                        let used = failure::used(&record);
                        let now = Timestamp::now();
                        close_call(store, first, CallStatus::Cancelled, used, now).await;
                    }
                    return Ok(());
                }
                Err(error) if error.is_conflict() => {}
                Err(error) => return Err(failure::of_store(error)),
            }
        }
        // The call log has this call under the one that the approval went to.
        let request = ApprovalRequest {
            call: None,
            ..request.clone()
        };
        let record = self.open(store, &request).await?;
        Err(failure::undecided(&record, &request))
    }
}

/// The one that counts of those that live, the newest first. Two sidecars with one store can have
/// asked at the same time: what somebody has decided on either counts, and the first decision.
fn counting(live: impl Iterator<Item = ApprovalRecord>) -> Option<ApprovalRecord> {
    live.min_by_key(|record| {
        let decided_at = record.decision.as_ref().map(|decision| decision.at);
        (decided_at.is_none(), decided_at)
    })
}

/// Says in the call log that a call has ended, if it still waits there.
async fn close_call(
    store: &dyn Store,
    id: CallId,
    status: CallStatus,
    failure: ToolFailure,
    at: Timestamp,
) {
    let closed = async {
        let Some(mut call) = store.call(id).await? else {
            return Ok(());
        };
        if call.status != CallStatus::Pending {
            return Ok(());
        }
        call.status = status;
        call.completed_at = Some(at);
        call.error = Some(failure.message);
        call.error_code = Some(failure.code);
        store.record_call(call).await
    };
    match closed.await {
        Err(error) if !error.is_conflict() => {
            tracing::warn!(call.record = %id, %error, "The call log does not know of the end of a call that waited");
        }
        _ => {}
    }
}

impl Approver for Approvals {
    fn decide(&self, request: ApprovalRequest) -> ApprovalFuture {
        let this = self.clone();
        Box::pin(async move {
            match &this.shared.store {
                Some(store) => this.settle(&**store, &request).await,
                None => asking::alone(&this.shared.redaction, &request).await,
            }
        })
    }

    fn waiting_call(&self, request: &ApprovalRequest) -> WaitingCallFuture {
        let (this, wanted) = (self.clone(), Wanted::by(request));
        Box::pin(async move {
            let Some(store) = &this.shared.store else {
                return Ok(None);
            };
            let live = this.live(&**store, &wanted).await?;
            Ok(live.and_then(|record| record.call))
        })
    }

    fn spend(&self, request: &ApprovalRequest) -> SpendFuture {
        let (this, request) = (self.clone(), request.clone());
        Box::pin(async move {
            match &this.shared.store {
                Some(store) => this.use_up(&**store, &request).await,
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

#[cfg(test)]
mod tests {
    use pillion_core::store::ApprovalStore;
    use pillion_store::{SqlStore, StoreLocation, StoreOptions};

    use super::*;

    /// An approval of the call `hash`, asked for at second `asked`.
    fn asked(id: &str, asked: u64) -> ApprovalRecord {
        let created_at = Timestamp::now().plus(Duration::from_secs(asked));
        ApprovalRecord {
            id: id.to_owned(),
            call: None,
            tool: "send".to_owned(),
            server: None,
            arguments_hash: "hash".to_owned(),
            arguments: "{}".to_owned(),
            user: None,
            created_at,
            expires_at: created_at.plus(Duration::from_secs(900)),
            decision: None,
            used_at: None,
        }
    }

    #[tokio::test]
    async fn g3_of_questions_that_two_sidecars_asked_the_first_that_is_decided_counts() {
        let options = StoreOptions::new(StoreLocation::Memory);
        let store = SqlStore::open(&options).await.unwrap();
        let approvals = Approvals::new(&Config::default(), None, Arc::default(), Arc::default());
        let wanted = Wanted {
            hash: "hash".to_owned(),
            named: None,
        };
        let live = async || {
            let live = approvals.live(&store, &wanted).await.unwrap();
            live.map(|record| record.id)
        };
        for (place, id) in (0..).zip(["a", "b", "c"]) {
            store.insert_approval(&asked(id, place)).await.unwrap();
        }
        assert_eq!(live().await.as_deref(), Some("c"));
        let now = Timestamp::now();
        for (seconds, id, verdict) in [(1, "b", Verdict::Denied), (0, "a", Verdict::Approved)] {
            let decision = ApprovalDecision {
                verdict,
                by: "somebody".to_owned(),
                at: now.plus(Duration::from_secs(seconds)),
                reason: None,
            };
            store.decide_approval(id, &decision).await.unwrap();
            assert_eq!(live().await.as_deref(), Some(id));
        }
        // A yes is for one call; after it the no counts.
        store.use_approval("a", now).await.unwrap();
        assert_eq!(live().await.as_deref(), Some("b"));
    }
}
