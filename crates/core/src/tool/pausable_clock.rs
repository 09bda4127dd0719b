use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

/// The pausable clock of a call that needs a decision, or makes nested calls. The clock is paused
/// while the call or a nested call waits for a person, because such waits count toward no deadline.
#[derive(Debug, Default)]
pub(crate) struct PausableClock {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// Number of calls that are waiting for a person.
    waiting: usize,
    /// When the current pause began.
    since: Option<Instant>,
    /// Total duration of earlier pauses.
    waited: Duration,
}

/// Keeps the clock paused until dropped.
pub(crate) struct Pause(Arc<PausableClock>);

/// Lets the clock run in spite of one pause until dropped.
pub(crate) struct Resumption(Arc<PausableClock>);

impl PausableClock {
    /// Pauses the clock.
    pub(crate) fn pause(self: &Arc<Self>) -> Pause {
        self.begin_wait();
        Pause(Arc::clone(self))
    }

    /// Suspends one pause of the clock, for work of the waiting call that counts toward its
    /// deadline.
    pub(crate) fn resume(self: &Arc<Self>) -> Resumption {
        self.end_wait();
        Resumption(Arc::clone(self))
    }

    /// Returns the total duration of all pauses.
    pub(crate) fn paused(&self) -> Duration {
        let state = self.state.lock();
        state.waited + state.since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    fn begin_wait(&self) {
        let mut state = self.state.lock();
        state.waiting += 1;
        state.since.get_or_insert_with(Instant::now);
        drop(state);
        self.changed.notify_one();
    }

    fn end_wait(&self) {
        let mut state = self.state.lock();
        state.waiting -= 1;
        if state.waiting == 0
            && let Some(since) = state.since.take()
        {
            state.waited += since.elapsed();
        }
        drop(state);
        self.changed.notify_one();
    }

    /// Waits until `deadline`, extended by all pauses. Supports only one waiter.
    pub(crate) async fn wait_until(&self, deadline: Instant) {
        loop {
            let end = {
                let state = self.state.lock();
                (state.waiting == 0).then(|| deadline + state.waited)
            };
            match end {
                None => self.changed.notified().await,
                Some(end) => tokio::select! {
                    () = pillion_deadline::sleep_until(end) => return,
                    () = self.changed.notified() => {}
                },
            }
        }
    }
}

impl Drop for Pause {
    fn drop(&mut self) {
        self.0.end_wait();
    }
}

impl Drop for Resumption {
    fn drop(&mut self) {
        self.0.begin_wait();
    }
}
