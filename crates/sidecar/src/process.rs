//! What lives as long as the process, whatever becomes of its configuration.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_util::task::TaskTracker;

use crate::access::{Peer, PeerRules};
use crate::approvals::PendingDecisions;
use crate::connections::Connections;
use crate::events::{Bus, Event};
use crate::metrics::Metrics;
use crate::telemetry::Telemetry;

/// Shared by every state that the process has had.
#[derive(Debug, Default)]
pub(crate) struct Process {
    pub(crate) metrics: Arc<Metrics>,
    /// Calls that go on when their callers have gone.
    pub(crate) calls: TaskTracker,
    /// MCP clients with a connection of their own, which has left HTTP behind.
    pub(crate) clients: TaskTracker,
    /// Tells whoever listens what happens.
    pub(crate) events: Arc<Bus>,
    /// Tells when MCP servers have answered.
    pub(crate) connections: Connections,
    /// Pending approval decisions that calls wait for.
    pub(crate) pending: Arc<PendingDecisions>,
    /// Makes spans, where somebody wants them.
    pub(crate) telemetry: Option<Arc<Telemetry>>,
    is_draining: watch::Sender<bool>,
    /// Who may speak to us on the Unix socket now.
    peers: watch::Sender<PeerRules>,
    last_reload: Mutex<Option<Reload>>,
}

/// How the last look at a changed configuration went.
#[derive(Debug, Clone)]
pub(crate) struct Reload {
    pub(crate) at: SystemTime,
    /// Why it was refused: the old configuration holds.
    pub(crate) error: Option<String>,
}

/// The rules by which somebody was let in, who may stay longer than they hold.
#[derive(Debug)]
pub(crate) struct Welcome {
    peer: Option<Peer>,
    peers: watch::Receiver<PeerRules>,
}

impl Welcome {
    /// Resolves when no rule lets them in any more; at once where that is so. May be dropped, and
    /// asked for again.
    pub(crate) async fn ended(&mut self) {
        let Some(Peer::Process { uid, gid, pid }) = self.peer else {
            return std::future::pending().await;
        };
        if self
            .peers
            .wait_for(|peers| !peers.allow(uid, gid))
            .await
            .is_err()
        {
            // The process ends.
            return std::future::pending().await;
        }
        tracing::warn!(
            uid,
            gid,
            pid,
            "The connection of a process ends that no rule lets in any more"
        );
    }
}

impl Process {
    /// A new one, with traces or without.
    pub(crate) fn new(telemetry: Option<Arc<Telemetry>>) -> Self {
        Self {
            telemetry,
            ..Self::default()
        }
    }

    /// Waits for the calls whose callers have gone, no longer than `patience`.
    pub(crate) async fn finish_calls(&self, patience: Duration) {
        self.calls.close();
        drop(timeout(patience, self.calls.wait()).await);
    }

    /// From now on no more requests are taken.
    pub(crate) fn start_draining(&self) {
        self.is_draining.send_replace(true);
    }

    pub(crate) fn is_draining(&self) -> bool {
        *self.is_draining.borrow()
    }

    /// Resolves when no more requests are taken.
    pub(crate) fn draining(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut is_draining = self.is_draining.subscribe();
        async move { drop(is_draining.wait_for(|is_draining| *is_draining).await) }
    }

    /// From now on these say who may speak to us on the Unix socket.
    pub(crate) fn let_in(&self, peers: &PeerRules) {
        self.peers.send_if_modified(|current| {
            let is_other = current != peers;
            if is_other {
                current.clone_from(peers);
            }
            is_other
        });
    }

    /// What to wait with until no rule lets `peer` in any more.
    pub(crate) fn watch(&self, peer: Option<Peer>) -> Welcome {
        Welcome {
            peer,
            peers: self.peers.subscribe(),
        }
    }

    pub(crate) fn reloaded(&self, error: Option<String>) {
        let counter = match error {
            None => &self.metrics.reloads,
            Some(_) => &self.metrics.failed_reloads,
        };
        counter.fetch_add(1, Ordering::Relaxed);
        let event = Event::ConfigurationReloaded {
            error: error.as_deref(),
        };
        self.events.tell(&event);
        let at = SystemTime::now();
        *self.last_reload.lock() = Some(Reload { at, error });
    }

    pub(crate) fn last_reload(&self) -> Option<Reload> {
        self.last_reload.lock().clone()
    }
}
