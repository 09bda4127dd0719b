//! The state that exists until the process ends, across reloads.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_util::task::TaskTracker;

use crate::access::{BrowserSessions, Peer, PeerRules};
use crate::accounts::PrincipalAccounts;
use crate::approvals::PendingDecisions;
use crate::connections::Connections;
use crate::events::{Event, EventBus};
use crate::metrics::Metrics;
use crate::telemetry::Telemetry;
use crate::waiting_bytes::WaitingBytes;

/// The process-wide state, which all configurations of the process share.
#[derive(Debug, Default)]
pub struct Process {
    /// The counters of the process.
    pub metrics: Arc<Metrics>,
    /// Calls that continue after their callers have disconnected.
    pub call_tasks: TaskTracker,
    /// Limits, for each principal, the number and memory of requests that continue after their
    /// clients have disconnected, or that wait for their clients' next requests.
    pub detached_requests: Arc<PrincipalAccounts>,
    /// Limits, for each principal, the memory of the JSON values in requests whose clients wait for
    /// the response.
    pub request_values: Arc<PrincipalAccounts>,
    /// The tasks that serve MCP clients and PHP executors on connections upgraded from HTTP.
    pub client_tasks: TaskTracker,
    /// The sessions of the browsers that use the console.
    pub browser_sessions: BrowserSessions,
    /// Publishes events to the clients of the event stream.
    pub events: Arc<EventBus>,
    /// Publishes successful connections with MCP servers.
    pub connections: Connections,
    /// Pending approval decisions that calls wait for.
    pub pending_decisions: Arc<PendingDecisions>,
    /// Limits the response bytes that wait for clients.
    pub waiting_bytes: WaitingBytes,
    /// Creates spans, if telemetry is enabled.
    pub telemetry: Option<Arc<Telemetry>>,
    /// Locked while tools are discovered in the background for a readiness check.
    pub background_discovery_lock: Arc<tokio::sync::Mutex<()>>,
    is_draining: watch::Sender<bool>,
    /// The current access rules of the Unix socket.
    peers: watch::Sender<PeerRules>,
    last_reload: Mutex<Option<Reload>>,
}

/// The outcome of the last reload of the configuration.
#[derive(Debug, Clone)]
pub struct Reload {
    /// The time at which the configuration was reloaded.
    pub at: SystemTime,
    /// Why the new configuration was rejected. The old configuration stays in effect. `None` if the
    /// new one was applied.
    pub error: Option<String>,
}

/// Watches whether the rules of the Unix socket still admit a connected client.
#[derive(Debug)]
pub struct AdmissionWatch {
    peer: Option<Peer>,
    peers: watch::Receiver<PeerRules>,
}

impl AdmissionWatch {
    /// Resolves when the rules no longer admit the client, or at once if they do not admit it now.
    /// Never resolves for a client that is not on the Unix socket. Cancel-safe.
    pub async fn wait_until_revoked(&mut self) {
        let Some(Peer::Process { uid, gid, pid }) = self.peer else {
            return std::future::pending().await;
        };
        let revocation = self.peers.wait_for(|peers| !peers.allows(uid, gid));
        if revocation.await.is_err() {
            // Receiving cannot fail before the process ends, because the sender is dropped only
            // then.
            return std::future::pending().await;
        }
        tracing::warn!(
            uid,
            gid,
            pid,
            "Closing a connection: the socket rules no longer allow its process"
        );
    }
}

impl Process {
    /// Creates the state, with or without telemetry.
    pub fn new(telemetry: Option<Arc<Telemetry>>) -> Self {
        Self {
            telemetry,
            ..Self::default()
        }
    }

    /// Waits up to `limit` for the end of calls whose callers have disconnected.
    pub async fn finish_calls(&self, limit: Duration) {
        self.call_tasks.close();
        drop(timeout(limit, self.call_tasks.wait()).await);
    }

    /// Marks the process as draining: it accepts no more requests.
    pub fn start_draining(&self) {
        self.is_draining.send_replace(true);
    }

    /// Returns whether the process accepts no more requests.
    pub fn is_draining(&self) -> bool {
        *self.is_draining.borrow()
    }

    /// Resolves when the process accepts no more requests.
    pub fn wait_for_draining(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut is_draining = self.is_draining.subscribe();
        async move { drop(is_draining.wait_for(|is_draining| *is_draining).await) }
    }

    /// Sets the rules of the Unix socket.
    pub fn set_peer_rules(&self, peers: &PeerRules) {
        if *self.peers.borrow() != *peers {
            self.peers.send_replace(peers.clone());
        }
    }

    /// Returns a watch on the rules that admit `peer`.
    pub fn watch_admission(&self, peer: Option<Peer>) -> AdmissionWatch {
        AdmissionWatch {
            peer,
            peers: self.peers.subscribe(),
        }
    }

    /// Records a reload of the configuration, or the error that prevented it.
    pub fn record_reload(&self, error: Option<String>) {
        let counter = match error {
            None => &self.metrics.reloads,
            Some(_) => &self.metrics.failed_reloads,
        };
        counter.fetch_add(1, Ordering::Relaxed);
        let event = Event::ConfigurationReloaded {
            error: error.as_deref(),
        };
        self.events.publish(&event);
        let at = SystemTime::now();
        *self.last_reload.lock() = Some(Reload { at, error });
    }

    /// Returns the outcome of the last reload; `None` if there was no reload.
    pub fn last_reload(&self) -> Option<Reload> {
        self.last_reload.lock().clone()
    }
}
