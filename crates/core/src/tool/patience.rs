use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

/// The time of a call that makes others: it stands still while one of those waits for a person,
/// whose time counts towards no deadline.
#[derive(Debug, Default)]
pub(crate) struct Patience {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// How many calls wait now.
    waiting: usize,
    /// Since when any does.
    since: Option<Instant>,
    /// How long any did before.
    waited: Duration,
}

/// The time stands still as long as this is there.
pub(crate) struct Pause(Arc<Patience>);

impl Patience {
    /// Stops the time.
    pub(crate) fn pause(self: &Arc<Self>) -> Pause {
        let mut state = self.state.lock();
        state.waiting += 1;
        state.since.get_or_insert_with(Instant::now);
        drop(state);
        self.changed.notify_one();
        Pause(Arc::clone(self))
    }

    /// Waits until `deadline`, and for as much longer as the time stood still. Only one may wait.
    pub(crate) async fn over(&self, deadline: Instant) {
        loop {
            let end = {
                let state = self.state.lock();
                (state.waiting == 0).then(|| deadline + state.waited)
            };
            match end {
                None => self.changed.notified().await,
                Some(end) => tokio::select! {
                    () = sleep_until(end) => return,
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
