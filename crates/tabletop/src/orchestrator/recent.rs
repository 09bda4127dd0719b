use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::{ActionOutcome, ActionOutput};

/// How long an accepted result is reused for an identical action (inclusive).
const REUSE_TTL: Duration = Duration::from_secs(30);

/// Maximum number of accepted results; the oldest is removed.
const MAX_ACCEPTED: usize = 1_000;

/// Identifies identical actions: the scene and the player's message.
pub(super) type ActionKey = (String, String);

/// The running actions and the recently accepted ones.
#[derive(Default)]
pub(super) struct RecentActions(Mutex<RecentState>);

#[derive(Default)]
struct RecentState {
    accepted: HashMap<ActionKey, (Instant, Arc<ActionOutput>)>,
    running: HashMap<ActionKey, Arc<RunningAction>>,
}

/// The outcome of a running action, for the callers that wait for it. The caller that holds the
/// lock runs the action; if that caller gives up, the next one runs the action.
type RunningAction = tokio::sync::Mutex<Option<ActionOutcome>>;

impl RecentActions {
    /// Returns the outcome of an action, and whether the action had already been accepted or was
    /// running.
    pub(super) async fn run<'a>(
        &self,
        key: ActionKey,
        run: impl FnOnce() -> Pin<Box<dyn Future<Output = ActionOutcome> + Send + 'a>>,
    ) -> (ActionOutcome, bool) {
        let running = {
            let mut state = self.0.lock();
            if let Some(output) = state.find_accepted(&key) {
                return (Ok(output), true);
            }
            // Removes running actions whose callers have all given up.
            state
                .running
                .retain(|_, running| Arc::strong_count(running) > 1);
            let running = state.running.entry(key.clone()).or_default();
            Arc::clone(running)
        };
        let mut slot = running.lock().await;
        if let Some(outcome) = &*slot {
            return (outcome.clone(), true);
        }
        let outcome = run().await;
        *slot = Some(outcome.clone());
        let mut state = self.0.lock();
        let known = state.running.get(&key);
        // If the scene was forgotten meanwhile, the action is no longer the known one.
        if known.is_some_and(|known| Arc::ptr_eq(known, &running)) {
            state.running.remove(&key);
            if let Ok(output) = &outcome
                && output.is_accepted
            {
                state.store_accepted(key, Arc::clone(output));
            }
        }
        (outcome, false)
    }

    /// Removes the accepted and running actions of a scene. Callers that already wait still get the
    /// outcome; later callers run the action again.
    pub(super) fn forget(&self, scene: &str) {
        let mut state = self.0.lock();
        state
            .accepted
            .retain(|(action_scene, _), _| action_scene != scene);
        state
            .running
            .retain(|(action_scene, _), _| action_scene != scene);
    }
}

impl RecentState {
    fn find_accepted(&mut self, key: &ActionKey) -> Option<Arc<ActionOutput>> {
        let (since, output) = self.accepted.get(key)?;
        (since.elapsed() <= REUSE_TTL).then(|| Arc::clone(output))
    }

    fn store_accepted(&mut self, key: ActionKey, output: Arc<ActionOutput>) {
        self.accepted
            .retain(|_, (since, _)| since.elapsed() <= REUSE_TTL);
        if self.accepted.len() >= MAX_ACCEPTED {
            let oldest = self.accepted.iter().min_by_key(|(_, (since, _))| *since);
            if let Some(oldest) = oldest.map(|(key, _)| key.clone()) {
                self.accepted.remove(&oldest);
            }
        }
        self.accepted.insert(key, (Instant::now(), output));
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
        assert!(table.recent.0.lock().running.is_empty());
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
        // An action that all callers gave up leaves nothing behind.
        let mut third = Box::pin(table.run(key("other"), output(false)));
        assert!(poll_once(&mut third).await.is_some());
        assert!(table.recent.0.lock().running.is_empty());
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
        for number in 0..=MAX_ACCEPTED {
            let (outcome, _) = table.run(key(&number.to_string()), output(true)).await;
            outcome.unwrap();
        }
        assert_eq!(table.recent.0.lock().accepted.len(), MAX_ACCEPTED);
        assert!(!table.run(key("0"), output(true)).await.1);
    }
}
