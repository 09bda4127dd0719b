use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};
use tokio_util::task::AbortOnDropHandle;

use super::Event;
use super::connect::Target;

/// Pause between two attempts to connect, doubled up to the maximum.
const MIN_PAUSE: Duration = Duration::from_millis(50);
const MAX_PAUSE: Duration = Duration::from_secs(1);

/// The state while there is no sidecar: a task tries to connect.
pub(super) struct Reconnecting {
    pub(super) since: Instant,
    /// The latest known reason why there is no sidecar.
    pub(super) problem: String,
    _looking: AbortOnDropHandle<()>,
}

impl Reconnecting {
    pub(super) fn new(target: &Arc<Target>, events: &mpsc::Sender<Event>, problem: String) -> Self {
        Self {
            since: Instant::now(),
            problem,
            _looking: look(target, events, Duration::ZERO),
        }
    }

    /// Continues to connect, after a new connection has ended before it was ready.
    pub(super) fn go_on(
        &mut self,
        target: &Arc<Target>,
        events: &mpsc::Sender<Event>,
        problem: Option<String>,
    ) {
        self._looking = look(target, events, MAX_PAUSE);
        if let Some(problem) = problem {
            self.problem = problem;
        }
    }
}

/// Tries to connect until it succeeds.
fn look(
    target: &Arc<Target>,
    events: &mpsc::Sender<Event>,
    after: Duration,
) -> AbortOnDropHandle<()> {
    let (target, events) = (Arc::clone(target), events.clone());
    AbortOnDropHandle::new(tokio::spawn(async move {
        sleep(after).await;
        let mut pause = MIN_PAUSE;
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
            pause = (pause * 2).min(MAX_PAUSE);
        }
    }))
}
