use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::tool::{Nesting, PausableClock, Pause, Resumption};

/// The clocks of a call that needs a decision, and of the call's ancestors. The executor pauses the
/// clocks while an [`Approver`](super::Approver) decides, because the time that a person takes
/// counts toward no deadline.
#[derive(Clone, Default)]
pub struct DecisionClock {
    own_clock: Arc<PausableClock>,
    ancestor_clocks: Vec<Arc<PausableClock>>,
}

/// A guard for the work of an approver: the time until the guard is dropped counts toward the
/// deadline of the call.
#[must_use]
pub struct CountedWork {
    _resumptions: Vec<Resumption>,
}

impl DecisionClock {
    pub(super) fn for_nesting(nesting: Option<&Nesting>) -> Self {
        Self {
            own_clock: Arc::default(),
            ancestor_clocks: nesting
                .map_or_else(Vec::new, |nesting| nesting.ancestor_clocks().to_vec()),
        }
    }

    /// Counts the work of the approver toward the deadline of the call until the returned value is
    /// dropped. Intended for work that waits for no person, such as reading a store.
    pub fn count(&self) -> CountedWork {
        let _resumptions = self.all().map(PausableClock::resume).collect();
        CountedWork { _resumptions }
    }

    pub(super) fn pause(&self) -> Vec<Pause> {
        self.all().map(PausableClock::pause).collect()
    }

    /// Waits until `deadline`, extended by all pauses.
    pub(super) async fn wait_until(&self, deadline: Instant) {
        self.own_clock.wait_until(deadline).await;
    }

    /// Returns the total duration of all pauses.
    pub(super) fn paused_time(&self) -> Duration {
        self.own_clock.paused_time()
    }

    fn all(&self) -> impl Iterator<Item = &Arc<PausableClock>> {
        self.ancestor_clocks.iter().chain([&self.own_clock])
    }
}

impl fmt::Debug for DecisionClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DecisionClock")
    }
}
