use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use pillion_gateway::access::Admission;

/// Interval at which a connection with a request in progress is checked after the authentication
/// timeout.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// The TCP connections that have not authenticated yet. These connections use no permits of
/// authenticated connections. A new connection never waits: above the maximum number, an older
/// connection is closed instead.
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
    next_number: u64,
    connections: BTreeMap<u64, (Arc<Admission>, CancellationToken)>,
}

/// A connection that has not authenticated yet.
#[derive(Debug)]
pub(super) struct PendingConnection {
    registry: UnauthenticatedConnections,
    number: u64,
    admission: Arc<Admission>,
    dismissal: CancellationToken,
}

impl UnauthenticatedConnections {
    pub(super) fn new(max_connections: usize, timeout: Duration) -> Self {
        Self(Arc::new(UnauthenticatedState {
            max_connections,
            timeout,
            pending: Mutex::default(),
        }))
    }

    /// Adds a connection. If there are then more than `max_connections`, closes the oldest
    /// connection without a request in progress, or else the oldest connection.
    pub(super) fn add(&self, admission: Admission) -> PendingConnection {
        let admission = Arc::new(admission);
        let dismissal = CancellationToken::new();
        let mut pending = self.0.pending.lock();
        let number = pending.next_number;
        pending.next_number += 1;
        let connections = &mut pending.connections;
        connections.insert(number, (Arc::clone(&admission), dismissal.clone()));
        if connections.len() > self.0.max_connections {
            // A connection without a request in progress is closed first, because a request in
            // progress may be about to authenticate.
            let oldest_idle = connections.iter().find(|(other_number, (admission, _))| {
                **other_number != number && !admission.is_checking()
            });
            let closed_number = oldest_idle
                .or_else(|| connections.iter().next())
                .map(|(number, _)| *number);
            if let Some((_, dismissal)) =
                closed_number.and_then(|number| connections.remove(&number))
            {
                dismissal.cancel();
            }
        }
        drop(pending);
        PendingConnection {
            registry: self.clone(),
            number,
            admission,
            dismissal,
        }
    }

    fn remove(&self, number: u64) {
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
    pub(super) async fn wait_for_dismissal(&self) {
        let timeout_end = async {
            pillion_deadline::sleep(self.registry.0.timeout).await;
            while self.admission.is_checking() {
                sleep(CHECK_INTERVAL).await;
            }
        };
        tokio::select! {
            biased;
            () = self.admission.wait_until_admitted() => {
                self.registry.remove(self.number);
                std::future::pending::<()>().await;
            }
            () = self.dismissal.cancelled() => {}
            () = timeout_end => {}
        }
    }
}

impl Drop for PendingConnection {
    fn drop(&mut self) {
        self.registry.remove(self.number);
    }
}
