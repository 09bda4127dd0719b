use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

/// A pausable clock for a call that makes nested calls. It is paused while a nested call waits for
/// a person, because such waits count toward no deadline.
#[derive(Debug, Default)]
pub(crate) struct PausableClock {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// Number of nested calls that are waiting.
    waiting: usize,
    /// When the current pause began.
    since: Option<Instant>,
    /// Total duration of earlier pauses.
    waited: Duration,
}

/// Keeps the clock paused until dropped.
pub(crate) struct Pause(Arc<PausableClock>);

impl PausableClock {
    /// Pauses the clock.
    pub(crate) fn pause(self: &Arc<Self>) -> Pause {
        let mut state = self.state.lock();
        state.waiting += 1;
        state.since.get_or_insert_with(Instant::now);
        drop(state);
        self.changed.notify_one();
        Pause(Arc::clone(self))
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
        let mut state = self.0.state.lock();
        state.waiting -= 1;
        if state.waiting == 0
            && let Some(since) = state.since.take()
        {
            state.waited += since.elapsed();
        }
        drop(state);
        self.0.changed.notify_one();
    }
}
