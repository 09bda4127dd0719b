use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::{ActionOutcome, ActionOutput};

/// Time for which the result of an accepted action is reused for identical actions.
const REUSE_TTL: Duration = Duration::from_secs(30);

/// Maximum number of stored outputs of accepted actions. The oldest output is removed.
const MAX_ACCEPTED_OUTPUTS: usize = 1_000;

/// Identifies identical actions: the scene and the player's message.
pub(super) type ActionKey = (String, String);

/// The running actions and the recently accepted actions.
#[derive(Default)]
pub(super) struct RecentActions(Mutex<RecentState>);

#[derive(Default)]
struct RecentState {
    accepted_outputs: HashMap<ActionKey, (Instant, Arc<ActionOutput>)>,
    running_actions: HashMap<ActionKey, Arc<ActionOutcomeSlot>>,
}

/// The outcome of a running action, for the callers that wait for the outcome. The caller that
/// holds the lock runs the action; if that call is cancelled, the next waiting caller runs the
/// action.
type ActionOutcomeSlot = tokio::sync::Mutex<Option<ActionOutcome>>;

impl RecentActions {
    /// Returns the outcome of an action, and whether the action had already been accepted or was
    /// running.
    pub(super) async fn run<'a>(
        &self,
        key: ActionKey,
        run: impl FnOnce() -> Pin<Box<dyn Future<Output = ActionOutcome> + Send + 'a>>,
    ) -> (ActionOutcome, bool) {
        let running_action = {
            let mut state = self.0.lock();
            if let Some(output) = state.find_accepted_output(&key) {
                return (Ok(output), true);
            }
            // Removes actions for which no caller waits any more, because all callers were
            // cancelled.
            state
                .running_actions
                .retain(|_, running_action| Arc::strong_count(running_action) > 1);
            let running_action = state.running_actions.entry(key.clone()).or_default();
            Arc::clone(running_action)
        };
        let mut outcome_slot = running_action.lock().await;
        if let Some(outcome) = &*outcome_slot {
            return (outcome.clone(), true);
        }
        let outcome = run().await;
        *outcome_slot = Some(outcome.clone());
        let mut state = self.0.lock();
        let current_action = state.running_actions.get(&key);
        // Changes the state only if this action is still the running action of `key`. If the scene
        // was forgotten while the action ran, the state contains no action or a newer action of
        // `key`.
        if current_action.is_some_and(|current_action| Arc::ptr_eq(current_action, &running_action))
        {
            state.running_actions.remove(&key);
            if let Ok(output) = &outcome
                && output.is_accepted
            {
                state.store_accepted_output(key, Arc::clone(output));
            }
        }
        (outcome, false)
    }

    /// Removes the accepted and running actions of a scene. Callers that already wait still get the
    /// outcome; later callers run the action again.
    pub(super) fn forget(&self, scene: &str) {
        let mut state = self.0.lock();
        state
            .accepted_outputs
            .retain(|(action_scene, _), _| action_scene != scene);
        state
            .running_actions
            .retain(|(action_scene, _), _| action_scene != scene);
    }
}

impl RecentState {
    fn find_accepted_output(&mut self, key: &ActionKey) -> Option<Arc<ActionOutput>> {
        let (accepted_at, output) = self.accepted_outputs.get(key)?;
        (accepted_at.elapsed() <= REUSE_TTL).then(|| Arc::clone(output))
    }

    fn store_accepted_output(&mut self, key: ActionKey, output: Arc<ActionOutput>) {
        self.accepted_outputs
            .retain(|_, (accepted_at, _)| accepted_at.elapsed() <= REUSE_TTL);
        if self.accepted_outputs.len() >= MAX_ACCEPTED_OUTPUTS {
            let oldest_entry = self
                .accepted_outputs
                .iter()
                .min_by_key(|(_, (accepted_at, _))| *accepted_at);
            if let Some(oldest_key) = oldest_entry.map(|(key, _)| key.clone()) {
                self.accepted_outputs.remove(&oldest_key);
            }
        }
        self.accepted_outputs.insert(key, (Instant::now(), output));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pillion_core::tool::ToolFailure;
    use serde_json::Value;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use tokio::sync::Notify;

    fn output(is_accepted: bool) -> ActionOutcome {
        Ok(Arc::new(ActionOutput {
            text: String::new(),
            data: Value::Null,
            is_accepted,
            is_public: Arc::default(),
        }))
    }

    fn key(message: &str) -> ActionKey {
        ("cave".to_owned(), message.to_owned())
    }

    #[derive(Default)]
    struct Table {
        recent: RecentActions,
        runs: AtomicUsize,
        go: Notify,
    }

    impl Table {
        async fn run(&self, key: ActionKey, outcome: ActionOutcome) -> (ActionOutcome, bool) {
            self.run_after(std::future::ready(()), key, outcome).await
        }

        /// Runs the action `go`, which waits until `self.go` is notified.
        async fn wait(&self, outcome: ActionOutcome) -> (ActionOutcome, bool) {
            self.run_after(self.go.notified(), key("go"), outcome).await
        }

        async fn run_after(
            &self,
            start: impl Future<Output = ()> + Send,
            key: ActionKey,
            outcome: ActionOutcome,
        ) -> (ActionOutcome, bool) {
            let run = || -> Pin<Box<dyn Future<Output = ActionOutcome> + Send + '_>> {
                Box::pin(async {
                    self.runs.fetch_add(1, Ordering::SeqCst);
                    start.await;
                    outcome
                })
            };
            self.recent.run(key, run).await
        }

        fn runs(&self) -> usize {
            self.runs.load(Ordering::SeqCst)
        }
    }

    #[tokio::test(start_paused = true)]
    async fn d9_an_accepted_action_is_reused_for_30_seconds_inclusive() {
        let table = Table::default();
        assert!(!table.run(key("go"), output(true)).await.1);
        tokio::time::advance(REUSE_TTL).await;
        assert!(table.run(key("go"), output(true)).await.1);
        assert_eq!(table.runs(), 1);
        tokio::time::advance(Duration::from_millis(1)).await;
        assert!(!table.run(key("go"), output(true)).await.1);
        assert!(!table.run(key("stay"), output(true)).await.1);
        let elsewhere = ("hall".to_owned(), "go".to_owned());
        assert!(!table.run(elsewhere, output(true)).await.1);
        assert_eq!(table.runs(), 4);
    }

    #[tokio::test]
    async fn d9_a_rejected_action_is_not_reused() {
        let table = Table::default();
        let failure = || Err(ToolFailure::internal("no"));
        for outcome in [output(false), output(false), failure(), failure()] {
            assert!(!table.run(key("go"), outcome).await.1);
        }
        assert_eq!(table.runs(), 4);
        assert!(table.recent.0.lock().running_actions.is_empty());
    }

    #[tokio::test]
    async fn d9_equal_concurrent_actions_run_once_whatever_the_outcome() {
        let table = Table::default();
        for (number, outcome) in [
            output(false),
            Err(ToolFailure::internal("no")),
            output(true),
        ]
        .into_iter()
        .enumerate()
        {
            let (first, second, third, ()) = tokio::join!(
                table.wait(outcome.clone()),
                table.wait(outcome.clone()),
                table.wait(outcome),
                async {
                    while table.runs() <= number {
                        tokio::task::yield_now().await;
                    }
                    table.go.notify_one();
                }
            );
            assert_eq!([first.1, second.1, third.1], [false, true, true]);
            assert_eq!(table.runs(), number + 1);
        }
    }

    #[tokio::test]
    async fn d9_a_waiting_caller_takes_over_when_the_first_is_cancelled() {
        let table = Table::default();
        let mut first = Box::pin(table.wait(output(true)));
        assert!(poll_once(&mut first).await.is_none());
        let mut second = Box::pin(table.wait(output(true)));
        assert!(poll_once(&mut second).await.is_none());
        drop(first);
        table.go.notify_one();
        assert!(!second.await.1);
        assert_eq!(table.runs(), 2);
        // An action is removed once none of its callers waits for it.
        let mut third = Box::pin(table.run(key("other"), output(false)));
        assert!(poll_once(&mut third).await.is_some());
        assert!(table.recent.0.lock().running_actions.is_empty());
    }

    #[tokio::test]
    async fn d9_outcomes_of_a_removed_scene_are_not_reused() {
        let table = Table::default();
        let elsewhere = ("hall".to_owned(), "go".to_owned());
        table.run(elsewhere.clone(), output(true)).await.0.unwrap();
        table.run(key("stay"), output(true)).await.0.unwrap();
        let mut under_way = Box::pin(table.wait(output(true)));
        let mut waiting = Box::pin(table.wait(output(true)));
        assert!(poll_once(&mut under_way).await.is_none());
        assert!(poll_once(&mut waiting).await.is_none());
        table.recent.forget("cave");
        assert!(table.run(elsewhere, output(true)).await.1);
        assert!(!table.run(key("stay"), output(true)).await.1);
        // Waiting callers get the outcome; later callers do not.
        let later = table.run(key("go"), output(false)).await;
        assert!(!later.1);
        table.go.notify_one();
        let (first, second) = (under_way.await, waiting.await);
        assert_eq!([first.1, second.1], [false, true]);
        assert!(!table.run(key("go"), output(true)).await.1);
        assert!(table.run(key("go"), output(true)).await.1);
    }

    /// Polls a future once.
    async fn poll_once<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
        std::future::poll_fn(|context| {
            std::task::Poll::Ready(match Pin::new(&mut *future).poll(context) {
                std::task::Poll::Ready(output) => Some(output),
                std::task::Poll::Pending => None,
            })
        })
        .await
    }

    #[tokio::test]
    async fn d9_the_number_of_stored_outcomes_is_limited() {
        let table = Table::default();
        for number in 0..=MAX_ACCEPTED_OUTPUTS {
            let (outcome, _) = table.run(key(&number.to_string()), output(true)).await;
            outcome.unwrap();
        }
        assert_eq!(
            table.recent.0.lock().accepted_outputs.len(),
            MAX_ACCEPTED_OUTPUTS
        );
        assert!(!table.run(key("0"), output(true)).await.1);
    }
}
