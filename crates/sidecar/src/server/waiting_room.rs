use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use pillion_gateway::access::Admission;

/// Interval at which a connection is checked whose request is in progress at the end of the
/// timeout.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// The TCP connections that have not authenticated yet. They use no permits of authenticated
/// connections. A new connection never waits: above the limit, the oldest connection is closed.
#[derive(Debug, Clone)]
pub(super) struct UnauthenticatedConnections(Arc<UnauthenticatedState>);

#[derive(Debug)]
struct UnauthenticatedState {
    max_connections: usize,
    timeout: Duration,
    pending: Mutex<PendingConnections>,
}

#[derive(Debug, Default)]
struct PendingConnections {
    next: u64,
    connections: BTreeMap<u64, (Arc<Admission>, CancellationToken)>,
}

/// A connection that has not authenticated yet.
#[derive(Debug)]
pub(super) struct PendingConnection {
    room: UnauthenticatedConnections,
    number: u64,
    admission: Arc<Admission>,
    dismissed: CancellationToken,
}

impl UnauthenticatedConnections {
    pub(super) fn new(max_connections: usize, timeout: Duration) -> Self {
        Self(Arc::new(UnauthenticatedState {
            max_connections,
            timeout,
            pending: Mutex::default(),
        }))
    }

    /// Adds a connection, and closes the oldest one above the limit.
    pub(super) fn enter(&self, admission: Admission) -> PendingConnection {
        let admission = Arc::new(admission);
        let dismissed = CancellationToken::new();
        let mut pending = self.0.pending.lock();
        let number = pending.next;
        pending.next += 1;
        let all = &mut pending.connections;
        all.insert(number, (Arc::clone(&admission), dismissed.clone()));
        if all.len() > self.0.max_connections {
            // A connection without a request in progress is closed first, because a request in
            // progress may be about to authenticate.
            let idle = all
                .iter()
                .find(|(other, (admission, _))| **other != number && !admission.is_checking());
            let oldest = idle
                .or_else(|| all.iter().next())
                .map(|(number, _)| *number);
            if let Some((_, dismissed)) = oldest.and_then(|oldest| all.remove(&oldest)) {
                dismissed.cancel();
            }
        }
        drop(pending);
        PendingConnection {
            room: self.clone(),
            number,
            admission,
            dismissed,
        }
    }

    fn leave(&self, number: u64) {
        self.0.pending.lock().connections.remove(&number);
    }
}

impl PendingConnection {
    pub(super) fn admission(&self) -> &Arc<Admission> {
        &self.admission
    }

    /// Resolves when the connection must be closed, because it has not authenticated in time or
    /// because there are too many connections. Never resolves after the connection has
    /// authenticated.
    pub(super) async fn dismissed(&self) {
        let too_long = async {
            pillion_deadline::sleep(self.room.0.timeout).await;
            while self.admission.is_checking() {
                sleep(CHECK_INTERVAL).await;
            }
        };
        tokio::select! {
            biased;
            () = self.admission.admitted() => {
                self.room.leave(self.number);
                std::future::pending::<()>().await;
            }
            () = self.dismissed.cancelled() => {}
            () = too_long => {}
        }
    }
}

impl Drop for PendingConnection {
    fn drop(&mut self) {
        self.room.leave(self.number);
    }
}
