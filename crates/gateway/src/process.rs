//! The state that exists until the process ends, across reloads.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
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

/// Maximum number of reloads that are remembered.
const MAX_RELOADS: usize = 20;

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
    /// The last reloads, the newest last.
    reloads: Mutex<VecDeque<Reload>>,
    /// Number of configurations that reloads have applied. A rejected one notifies too.
    applied_reloads: watch::Sender<u64>,
    reload_request: Notify,
    accepts_reload_requests: AtomicBool,
}

/// The outcome of a reload of the configuration.
#[derive(Debug, Clone)]
pub struct Reload {
    /// The time at which the configuration was reloaded.
    pub at: SystemTime,
    /// Why the configuration was reloaded.
    pub trigger: ReloadTrigger,
    /// Why the new configuration was rejected. The old configuration stays in effect. `None` if the
    /// new one was applied.
    pub error: Option<String>,
    /// The keys and files that have changed; empty if the new configuration was rejected.
    pub changes: Vec<String>,
    /// The changed settings that take effect only after a restart.
    pub restart_settings: Vec<&'static str>,
}

/// Why the configuration is reloaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReloadTrigger {
    /// The signal SIGHUP.
    Signal,
    /// A changed file.
    FileChange,
    /// A request in the console.
    Request,
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
    pub fn record_reload(&self, reload: Reload) {
        let is_applied = reload.error.is_none();
        let counter = if is_applied {
            &self.metrics.reloads
        } else {
            &self.metrics.failed_reloads
        };
        counter.fetch_add(1, Ordering::Relaxed);
        let event = Event::ConfigurationReloaded {
            error: reload.error.as_deref(),
        };
        self.events.publish(&event);
        let mut reloads = self.reloads.lock();
        if reloads.len() == MAX_RELOADS {
            reloads.pop_front();
        }
        reloads.push_back(reload);
        drop(reloads);
        self.applied_reloads
            .send_modify(|applied| *applied += u64::from(is_applied));
    }

    /// Returns the outcome of the last reload; `None` if there was no reload.
    pub fn last_reload(&self) -> Option<Reload> {
        self.reloads.lock().back().cloned()
    }

    /// Returns the last 20 reloads, the newest first.
    pub fn reloads(&self) -> Vec<Reload> {
        self.reloads.lock().iter().rev().cloned().collect()
    }

    /// Returns the number of configurations that reloads have applied.
    pub fn applied_reloads(&self) -> u64 {
        *self.applied_reloads.borrow()
    }

    /// Resolves as soon as the number of applied configurations differs from `count`.
    pub fn wait_for_reload_after(&self, count: u64) -> impl Future<Output = ()> + Send + use<> {
        let mut applied_reloads = self.applied_reloads.subscribe();
        async move { drop(applied_reloads.wait_for(|applied| *applied != count).await) }
    }

    /// Lets [`reload`](Self::reload) request reloads, which
    /// [`wait_for_reload_request`](Self::wait_for_reload_request) then receives.
    pub fn enable_reload_requests(&self) {
        self.accepts_reload_requests.store(true, Ordering::Release);
    }

    /// Returns whether [`reload`](Self::reload) reloads the configuration.
    pub fn accepts_reload_requests(&self) -> bool {
        self.accepts_reload_requests.load(Ordering::Acquire)
    }

    /// Resolves when a reload was requested since the last call. Cancel-safe.
    pub async fn wait_for_reload_request(&self) {
        self.reload_request.notified().await;
    }

    /// Requests a reload of the configuration, and waits until it has finished. Returns `None`, and
    /// does nothing, if the process does not accept such requests.
    pub async fn reload(&self) -> Option<Reload> {
        if !self.accepts_reload_requests() {
            return None;
        }
        let mut applied_reloads = self.applied_reloads.subscribe();
        self.reload_request.notify_one();
        // A reload that has begun before the request may finish first.
        while applied_reloads.changed().await.is_ok() {
            let last_reload = self.last_reload();
            if last_reload
                .as_ref()
                .is_some_and(|reload| reload.trigger == ReloadTrigger::Request)
            {
                return last_reload;
            }
        }
        None
    }
}
