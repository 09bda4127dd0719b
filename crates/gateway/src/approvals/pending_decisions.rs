//! The decisions that calls wait for. One task reads the store for all callers that wait for one
//! approval, and the number of waiting callers of each principal is limited.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use pillion_core::store::{ApprovalRecord, StoreError};
use pillion_core::tool::ToolFailure;
use tokio::sync::{Notify, watch};

use super::failure;
use crate::accounts::{AccountLimits, AccountReservation, PrincipalAccounts, Usage};

/// Interval at which the store is read for each approval, to find decisions that were made in
/// another process.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// The result of waiting for an approval: the decided record, or `None` if the approval no longer
/// exists.
pub(super) type PollOutcome = Result<Option<ApprovalRecord>, ToolFailure>;

/// Connects the calls that wait for decisions with the requests that make the decisions. Survives a
/// reload of the configuration.
#[derive(Debug, Default)]
pub struct PendingDecisions {
    /// Locked while an approval is looked up or created, so that two concurrent calls share one
    /// approval.
    pub(super) creation_lock: tokio::sync::Mutex<()>,
    /// The tasks that poll the store for the approvals with waiting callers, by approval ID.
    polls: Mutex<HashMap<String, Arc<ApprovalPoll>>>,
    /// Number of waiting callers by principal.
    waiting_callers: Arc<PrincipalAccounts>,
    close_notify: Notify,
    is_closed: AtomicBool,
}

/// The task that reads the store for one approval. Publishes one outcome, then ends.
#[derive(Debug)]
struct ApprovalPoll {
    outcome_sender: watch::Sender<Option<PollOutcome>>,
    /// Notified when a request of this process has decided the approval, so that the task reads the
    /// store at once.
    wake_signal: Notify,
}

/// Removes an approval's polling task from `polls` when the task ends, even if the task panics.
struct PollRegistration {
    decisions: Arc<PendingDecisions>,
    id: String,
    poll: Arc<ApprovalPoll>,
}

impl PendingDecisions {
    /// Makes all callers stop waiting for decisions, because the sidecar shuts down. Pending
    /// approvals stay in the store.
    pub fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
        self.close_notify.notify_waiters();
    }

    /// Resolves when [`close`](Self::close) is called.
    pub(super) async fn wait_until_closed(&self) {
        let close_signal = self.close_notify.notified();
        if !self.is_closed.load(Ordering::Acquire) {
            close_signal.await;
        }
    }

    pub(super) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Acquire)
    }

    /// Makes the callers that wait for this approval read the store at once.
    pub(super) fn wake_poll(&self, id: &str) {
        if let Some(poll) = self.polls.lock().get(id) {
            poll.wake_signal.notify_one();
        }
    }

    /// Sets the maximum number of waiting callers of one principal.
    pub(crate) fn set_max_waiting(&self, max_callers: usize) {
        let bytes = u64::MAX;
        let usage = |count| Usage { count, bytes };
        let (principal, total) = (usage(max_callers), usage(usize::MAX));
        let limits = AccountLimits { principal, total };
        self.waiting_callers.set_limits(limits);
    }

    /// Returns a permit for another waiting caller of `principal`, or `None` if the principal
    /// already has the maximum number of waiting callers.
    pub(super) fn try_acquire_permit(&self, principal: Option<&str>) -> Option<AccountReservation> {
        self.waiting_callers
            .try_reserve(principal, Usage::for_request(0))
    }

    /// Waits until the approval with this ID is decided or no longer exists. All callers that wait
    /// for one approval share the task of the first caller, which calls `read_approval`.
    pub(super) async fn wait_for_outcome<L>(
        self: &Arc<Self>,
        id: &str,
        read_approval: impl Fn() -> L + Send + 'static,
    ) -> PollOutcome
    where
        L: Future<Output = Result<Option<ApprovalRecord>, StoreError>> + Send + 'static,
    {
        let mut receiver = self.subscribe(id, read_approval);
        let result = receiver.wait_for(Option::is_some).await;
        let outcome = result.ok().and_then(|outcome| outcome.clone());
        // Without an outcome, the polling task was dropped, for example with its runtime.
        outcome.unwrap_or_else(|| Err(failure::for_unread_decision()))
    }

    fn subscribe<L>(
        self: &Arc<Self>,
        id: &str,
        read_approval: impl Fn() -> L + Send + 'static,
    ) -> watch::Receiver<Option<PollOutcome>>
    where
        L: Future<Output = Result<Option<ApprovalRecord>, StoreError>> + Send + 'static,
    {
        let mut polls = self.polls.lock();
        if let Some(poll) = polls.get(id) {
            return poll.outcome_sender.subscribe();
        }
        let (outcome_sender, receiver) = watch::channel(None);
        let poll = Arc::new(ApprovalPoll {
            outcome_sender,
            wake_signal: Notify::new(),
        });
        polls.insert(id.to_owned(), Arc::clone(&poll));
        let registration = PollRegistration {
            decisions: Arc::clone(self),
            id: id.to_owned(),
            poll,
        };
        tokio::spawn(registration.run(read_approval));
        receiver
    }
}

impl PollRegistration {
    async fn run<L>(self, read_approval: impl Fn() -> L + Send)
    where
        L: Future<Output = Result<Option<ApprovalRecord>, StoreError>> + Send + 'static,
    {
        loop {
            let outcome = match read_approval().await {
                Ok(Some(record)) if record.decision.is_none() => None,
                Ok(record) => Some(Ok(record)),
                Err(error) => Some(Err(failure::for_store_error(error))),
            };
            if outcome.is_some() {
                // The poll is removed before the outcome is published, so that a later caller
                // starts a new poll.
                self.remove();
                self.poll.outcome_sender.send_replace(outcome);
                return;
            }
            tokio::select! {
                () = self.poll.wake_signal.notified() => {}
                () = tokio::time::sleep(POLL_INTERVAL) => {}
                () = self.poll.outcome_sender.closed() => {
                    let mut polls = self.decisions.polls.lock();
                    // The count of receivers is reliable, because no caller can subscribe while
                    // `polls` is locked.
                    if self.poll.outcome_sender.receiver_count() == 0 {
                        polls.remove(&self.id);
                        return;
                    }
                }
            }
        }
    }

    fn remove(&self) {
        let mut polls = self.decisions.polls.lock();
        let poll = polls.get(&self.id);
        if poll.is_some_and(|poll| Arc::ptr_eq(poll, &self.poll)) {
            polls.remove(&self.id);
        }
    }
}

impl Drop for PollRegistration {
    fn drop(&mut self) {
        self.remove();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use pillion_core::store::Verdict;

    use super::*;
    use crate::test_support;

    /// Returns an approval with this decision.
    fn approval(verdict: Option<Verdict>) -> ApprovalRecord {
        let mut approval = test_support::approval("a", Duration::ZERO);
        let decide = |verdict| test_support::decision(verdict, approval.created_at);
        approval.decision = verdict.map(decide);
        approval
    }

    #[tokio::test(start_paused = true)]
    async fn g3_callers_waiting_for_one_approval_share_one_read_per_second() {
        let pending = Arc::new(PendingDecisions::default());
        let looks = Arc::new(AtomicUsize::new(0));
        let is_decided = Arc::new(AtomicBool::new(false));
        let wait = || {
            let (pending, looks) = (Arc::clone(&pending), Arc::clone(&looks));
            let is_decided = Arc::clone(&is_decided);
            tokio::spawn(async move {
                let read = move || {
                    looks.fetch_add(1, Ordering::SeqCst);
                    let decided = is_decided.load(Ordering::SeqCst);
                    async move { Ok(Some(approval(decided.then_some(Verdict::Approved)))) }
                };
                pending.wait_for_outcome("a", read).await
            })
        };
        let callers: Vec<_> = (0..50).map(|_| wait()).collect();
        tokio::time::sleep(Duration::from_millis(10_500)).await;
        assert_eq!(looks.load(Ordering::SeqCst), 11);
        is_decided.store(true, Ordering::SeqCst);
        pending.wake_poll("a");
        for caller in callers {
            let outcome = caller.await.unwrap().unwrap();
            assert!(outcome.unwrap().decision.is_some());
        }
        assert_eq!(looks.load(Ordering::SeqCst), 12);
        assert!(pending.polls.lock().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn the_store_is_not_read_when_no_caller_waits() {
        let pending = Arc::new(PendingDecisions::default());
        let read = || async { Ok(Some(approval(None))) };
        let waiting_callers = pending.wait_for_outcome("a", read);
        let waited = tokio::time::timeout(Duration::from_secs(3), waiting_callers).await;
        assert!(waited.is_err());
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert!(pending.polls.lock().is_empty());
        let broken = || async { Err(StoreError::unavailable("no disk")) };
        assert!(pending.wait_for_outcome("a", broken).await.is_err());
        let gone = || async { Ok(None) };
        assert_eq!(pending.wait_for_outcome("a", gone).await.unwrap(), None);
    }

    #[test]
    fn waiting_callers_are_limited_for_each_principal() {
        let pending = Arc::new(PendingDecisions::default());
        pending.set_max_waiting(2);
        let permit = |principal| pending.try_acquire_permit(principal);
        let (first, second) = (permit(Some("token:a")), permit(Some("token:a")));
        assert!(first.is_some() && second.is_some());
        assert!(permit(Some("token:a")).is_none());
        assert!(permit(Some("token:b")).is_some());
        assert!(permit(None).is_some());
        drop(first);
        assert!(permit(Some("token:a")).is_some());
        drop(second);
        assert_eq!(pending.waiting_callers.total(), Usage::default());
    }
}
