use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};
use tokio_util::task::AbortOnDropHandle;

use super::Event;
use super::connect::Target;

/// How long to wait between two attempts to connect.
const SHORTEST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// There is no sidecar just now; one is looked for.
pub(super) struct Away {
    pub(super) since: Instant,
    /// Why not, as far as is known.
    pub(super) problem: String,
    _looking: AbortOnDropHandle<()>,
}

impl Away {
    pub(super) fn new(target: &Arc<Target>, events: &mpsc::Sender<Event>, problem: String) -> Self {
        Self {
            since: Instant::now(),
            problem,
            _looking: look(target, events, Duration::ZERO),
        }
    }

    /// Looks on: what there was for a moment is none.
    pub(super) fn go_on(
        &mut self,
        target: &Arc<Target>,
        events: &mpsc::Sender<Event>,
        problem: Option<String>,
    ) {
        self._looking = look(target, events, LONGEST_PAUSE);
        if let Some(problem) = problem {
            self.problem = problem;
        }
    }
}

/// Tries to connect until that succeeds.
fn look(
    target: &Arc<Target>,
    events: &mpsc::Sender<Event>,
    after: Duration,
) -> AbortOnDropHandle<()> {
    let (target, events) = (Arc::clone(target), events.clone());
    AbortOnDropHandle::new(tokio::spawn(async move {
        sleep(after).await;
        let mut pause = SHORTEST_PAUSE;
        loop {
            let event = match target.connect().await {
                Ok(connection) => Event::Connected(connection),
                Err(error) => Event::NotConnected(error),
            };
            let is_done = matches!(event, Event::Connected(_));
            if events.send(event).await.is_err() || is_done {
                return;
            }
            sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }))
}
