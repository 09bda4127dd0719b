//! Callers that wait for a decision in place: calls and chats.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, select_all};
use pillion_core::executor::{ApprovalRequest, Decision};
use pillion_core::store::{ApprovalRecord, Store, StoreError, Timestamp};
use pillion_core::tool::ToolFailure;
use tokio::time::Instant;

use super::{Approvals, Shared, elicitation, failure, recorded_decision};

/// Interval at which a waiting caller checks the system clock, because the clock may be set.
const CLOCK_INTERVAL: Duration = Duration::from_secs(1);

impl Approvals {
    /// Waits for the decision, and for the elicitation result of the caller's own user, if one was
    /// requested.
    pub(super) async fn wait(
        &self,
        store: &Arc<dyn Store>,
        record: &ApprovalRecord,
        request: &ApprovalRequest,
        mut elicitation: elicitation::PendingElicitation,
        wait: Duration,
    ) -> Result<Decision, ToolFailure> {
        let pending = &self.shared.pending;
        let mut outcome = std::pin::pin!(pending.outcome(&record.id, look(store, &record.id)));
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
                        return self.answered(&**store, record, request, verdict).await;
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
        let Shared {
            store,
            section,
            pending,
            ..
        } = &*self.shared;
        let (Some(store), true) = (store, until > Instant::now() && !ids.is_empty()) else {
            return false;
        };
        let Some(_permit) = pending.wait_permit(principal, section.max_waiting.get()) else {
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
            .map(|id| Box::pin(pending.outcome(id, look(store, id))));
        tokio::select! {
            (outcome, ..) = select_all(outcomes) => matches!(outcome, Ok(Some(_))),
            () = pending.closed() => false,
            () = pillion_deadline::sleep_until(until) => false,
        }
    }
}

/// Returns a function that reads one approval from the store.
fn look(
    store: &Arc<dyn Store>,
    id: &str,
) -> impl Fn() -> BoxFuture<'static, Result<Option<ApprovalRecord>, StoreError>> + Send + use<> {
    let (store, id) = (Arc::clone(store), id.to_owned());
    move || {
        let (store, id) = (Arc::clone(&store), id.clone());
        Box::pin(async move { store.approval(&id).await })
    }
}
