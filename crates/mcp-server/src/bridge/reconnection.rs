use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};
use tokio_util::task::AbortOnDropHandle;

use super::BridgeEvent;
use super::connect::Target;

/// Minimum interval between two attempts to connect; doubled after each attempt.
const MIN_CONNECT_INTERVAL: Duration = Duration::from_millis(50);
/// Maximum interval between two attempts to connect.
const MAX_CONNECT_INTERVAL: Duration = Duration::from_secs(1);

/// The state of a bridge that is not connected to a sidecar. A task tries to connect.
pub(super) struct Reconnection {
    pub(super) started_at: Instant,
    /// The latest reason why the bridge is not connected to the sidecar.
    pub(super) problem: String,
    _connect_task: AbortOnDropHandle<()>,
}

impl Reconnection {
    pub(super) fn new(
        target: &Arc<Target>,
        events: &mpsc::Sender<BridgeEvent>,
        problem: String,
    ) -> Self {
        Self {
            started_at: Instant::now(),
            problem,
            _connect_task: spawn_connect_task(target, events, Duration::ZERO),
        }
    }

    /// Continues to connect, after a new connection has ended before it was ready.
    pub(super) fn restart(
        &mut self,
        target: &Arc<Target>,
        events: &mpsc::Sender<BridgeEvent>,
        problem: Option<String>,
    ) {
        self._connect_task = spawn_connect_task(target, events, MAX_CONNECT_INTERVAL);
        if let Some(problem) = problem {
            self.problem = problem;
        }
    }
}

/// Starts a task that tries to connect until an attempt succeeds.
fn spawn_connect_task(
    target: &Arc<Target>,
    events: &mpsc::Sender<BridgeEvent>,
    delay: Duration,
) -> AbortOnDropHandle<()> {
    let (target, events) = (Arc::clone(target), events.clone());
    AbortOnDropHandle::new(tokio::spawn(async move {
        sleep(delay).await;
        let mut interval = MIN_CONNECT_INTERVAL;
        loop {
            let event = match target.connect().await {
                Ok(connection) => BridgeEvent::Connected(connection),
                Err(error) => BridgeEvent::ConnectFailed(error),
            };
            let is_connected = matches!(event, BridgeEvent::Connected(_));
            if events.send(event).await.is_err() || is_connected {
                return;
            }
            sleep(interval).await;
            interval = (interval * 2).min(MAX_CONNECT_INTERVAL);
        }
    }))
}
