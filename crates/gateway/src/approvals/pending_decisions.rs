//! Decisions that calls wait for. One task reads the store for all callers that wait for one
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
use crate::accounts::{AccountLimits, Charge, PrincipalAccounts, Usage};

/// Interval between two reads of the store for each approval, for decisions made in another
/// process.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// The result of waiting for an approval: the decided record, or `None` if the approval is gone.
pub(super) type Outcome = Result<Option<ApprovalRecord>, ToolFailure>;

/// Connects the calls that wait for decisions with the requests that decide. Survives a reload of
/// the configuration.
#[derive(Debug, Default)]
pub struct PendingDecisions {
    /// Held while an approval is looked up or created, so that two concurrent calls share one
    /// approval.
    pub(super) opening: tokio::sync::Mutex<()>,
    /// The tasks that read approvals that callers wait for, by approval id.
    polls: Mutex<HashMap<String, Arc<Poll>>>,
    /// Number of waiting callers by principal.
    waiting: Arc<PrincipalAccounts>,
    closing: Notify,
    is_closed: AtomicBool,
}

/// The task that reads the store for one approval. Publishes one outcome, then ends.
#[derive(Debug)]
struct Poll {
    outcome: watch::Sender<Option<Outcome>>,
    /// Notified when a request of this process has decided, so that the task reads the store at
    /// once.
    wake: Notify,
}

/// Removes a poll when its task ends, also by a panic.
struct Registered {
    pending: Arc<PendingDecisions>,
    id: String,
    poll: Arc<Poll>,
}

impl PendingDecisions {
    /// Ends all waits because the sidecar stops. Pending approvals stay in the store.
    pub fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
        self.closing.notify_waiters();
    }

    /// Resolves when [`close`](Self::close) is called.
    pub(super) async fn closed(&self) {
        let closing = self.closing.notified();
        if !self.is_closed.load(Ordering::Acquire) {
            closing.await;
        }
    }

    pub(super) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Acquire)
    }

    /// Makes the callers that wait for this approval read the store at once.
    pub(super) fn poll_now(&self, id: &str) {
        if let Some(poll) = self.polls.lock().get(id) {
            poll.wake.notify_one();
        }
    }

    /// Sets the maximum number of waiting callers of one principal.
    pub(crate) fn set_max_waiting(&self, max: usize) {
        let unlimited = Usage {
            count: usize::MAX,
            bytes: u64::MAX,
        };
        self.waiting.set_limits(AccountLimits {
            principal: Usage {
                count: max,
                ..unlimited
            },
            total: unlimited,
        });
    }

    /// Returns a permit for another waiting caller of `principal`, or `None` at the limit.
    pub(super) fn wait_permit(&self, principal: Option<&str>) -> Option<Charge> {
        self.waiting.charge(principal, Usage::one(0))
    }

    /// Waits until the approval with this id is decided or gone. All callers that wait for one
    /// approval share the task of the first caller, which calls `read`.
    pub(super) async fn outcome<L>(
        self: &Arc<Self>,
        id: &str,
        read: impl Fn() -> L + Send + 'static,
    ) -> Outcome
    where
        L: Future<Output = Result<Option<ApprovalRecord>, StoreError>> + Send + 'static,
    {
        let mut outcome = self.follow(id, read);
        let waited = outcome.wait_for(Option::is_some).await;
        let decision = waited.ok().and_then(|decision| decision.clone());
        // The polling task was dropped, for example with its runtime.
        decision.unwrap_or_else(|| Err(failure::unreachable()))
    }

    fn follow<L>(
        self: &Arc<Self>,
        id: &str,
        read: impl Fn() -> L + Send + 'static,
    ) -> watch::Receiver<Option<Outcome>>
    where
        L: Future<Output = Result<Option<ApprovalRecord>, StoreError>> + Send + 'static,
    {
        let mut polls = self.polls.lock();
        if let Some(poll) = polls.get(id) {
            return poll.outcome.subscribe();
        }
        let (outcome, receiver) = watch::channel(None);
        let poll = Arc::new(Poll {
            outcome,
            wake: Notify::new(),
        });
        polls.insert(id.to_owned(), Arc::clone(&poll));
        let registered = Registered {
            pending: Arc::clone(self),
            id: id.to_owned(),
            poll,
        };
        tokio::spawn(registered.run(read));
        receiver
    }
}

impl Registered {
    async fn run<L>(self, read: impl Fn() -> L + Send)
    where
        L: Future<Output = Result<Option<ApprovalRecord>, StoreError>> + Send + 'static,
    {
        loop {
            let outcome = match read().await {
                Ok(Some(record)) if record.decision.is_none() => None,
                Ok(found) => Some(Ok(found)),
                Err(error) => Some(Err(failure::store_failure(error))),
            };
            if outcome.is_some() {
                // The poll is removed before the outcome is published: a later caller starts a new
                // poll.
                self.remove();
                self.poll.outcome.send_replace(outcome);
                return;
            }
            tokio::select! {
                () = self.poll.wake.notified() => {}
                () = tokio::time::sleep(POLL_INTERVAL) => {}
                () = self.poll.outcome.closed() => {
                    let mut polls = self.pending.polls.lock();
                    // No caller can subscribe while `polls` is locked.
                    if self.poll.outcome.receiver_count() == 0 {
                        polls.remove(&self.id);
                        return;
                    }
                }
            }
        }
    }

    fn remove(&self) {
        let mut polls = self.pending.polls.lock();
        if polls
            .get(&self.id)
            .is_some_and(|poll| Arc::ptr_eq(poll, &self.poll))
        {
            polls.remove(&self.id);
        }
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.remove();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use pillion_core::store::{ApprovalDecision, Verdict};

    use super::*;
    use crate::test_support;

    /// Returns an approval with this decision.
    fn approval(verdict: Option<Verdict>) -> ApprovalRecord {
        let mut approval = test_support::approval("a", Duration::ZERO);
        approval.decision = verdict.map(|verdict| ApprovalDecision {
            verdict,
            by: "alice".to_owned(),
            at: approval.created_at,
            reason: None,
            arguments: None,
        });
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
                pending.outcome("a", read).await
            })
        };
        let callers: Vec<_> = (0..50).map(|_| wait()).collect();
        tokio::time::sleep(Duration::from_millis(10_500)).await;
        assert_eq!(looks.load(Ordering::SeqCst), 11);
        is_decided.store(true, Ordering::SeqCst);
        pending.poll_now("a");
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
        let waiting = pending.outcome("a", read);
        let waited = tokio::time::timeout(Duration::from_secs(3), waiting).await;
        assert!(waited.is_err());
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert!(pending.polls.lock().is_empty());
        let broken = || async { Err(StoreError::unavailable("no disk")) };
        assert!(pending.outcome("a", broken).await.is_err());
        let gone = || async { Ok(None) };
        assert_eq!(pending.outcome("a", gone).await.unwrap(), None);
    }

    #[test]
    fn waiting_callers_are_limited_for_each_principal() {
        let pending = Arc::new(PendingDecisions::default());
        pending.set_max_waiting(2);
        let permit = |principal| pending.wait_permit(principal);
        let (first, second) = (permit(Some("token:a")), permit(Some("token:a")));
        assert!(first.is_some() && second.is_some());
        assert!(permit(Some("token:a")).is_none());
        assert!(permit(Some("token:b")).is_some());
        assert!(permit(None).is_some());
        drop(first);
        assert!(permit(Some("token:a")).is_some());
        drop(second);
        assert_eq!(pending.waiting.total(), Usage::default());
    }
}
