use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

/// The pausable clock of a call that needs a decision, or makes nested calls. The clock is paused
/// while the call or a nested call waits for a person, because the time of these waits does not
/// count toward the call's deadline.
#[derive(Debug, Default)]
pub(crate) struct PausableClock {
    state: Mutex<State>,
    change: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// Number of calls that are waiting for a person.
    waiting_calls: usize,
    /// The time at which the current pause began; `None` while the clock runs.
    paused_since: Option<Instant>,
    /// Total duration of earlier pauses.
    paused_time: Duration,
}

/// A guard that keeps the clock paused until the guard is dropped.
pub(crate) struct Pause(Arc<PausableClock>);

/// A guard for work of a waiting call. Until the guard is dropped, the wait of this call does not
/// pause the clock.
pub(crate) struct Resumption(Arc<PausableClock>);

impl PausableClock {
    /// Pauses the clock.
    pub(crate) fn pause(self: &Arc<Self>) -> Pause {
        self.begin_wait();
        Pause(Arc::clone(self))
    }

    /// Lets the clock run during work of a waiting call that counts toward the deadline: until the
    /// returned guard is dropped, only the waits of other calls pause the clock.
    pub(crate) fn resume(self: &Arc<Self>) -> Resumption {
        self.end_wait();
        Resumption(Arc::clone(self))
    }

    /// Returns the total duration of all pauses.
    pub(crate) fn paused_time(&self) -> Duration {
        let state = self.state.lock();
        let current_pause = state.paused_since.map(|since| since.elapsed());
        state.paused_time + current_pause.unwrap_or_default()
    }

    fn begin_wait(&self) {
        let mut state = self.state.lock();
        state.waiting_calls += 1;
        state.paused_since.get_or_insert_with(Instant::now);
        drop(state);
        self.change.notify_one();
    }

    fn end_wait(&self) {
        let mut state = self.state.lock();
        state.waiting_calls -= 1;
        if state.waiting_calls == 0
            && let Some(paused_since) = state.paused_since.take()
        {
            state.paused_time += paused_since.elapsed();
        }
        drop(state);
        self.change.notify_one();
    }

    /// Waits until `deadline`, extended by all pauses. Supports only one waiter.
    pub(crate) async fn wait_until(&self, deadline: Instant) {
        loop {
            let extended_deadline = {
                let state = self.state.lock();
                (state.waiting_calls == 0).then(|| deadline + state.paused_time)
            };
            match extended_deadline {
                None => self.change.notified().await,
                Some(extended_deadline) => tokio::select! {
                    () = pillion_deadline::sleep_until(extended_deadline) => return,
                    () = self.change.notified() => {}
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
