//! What lives as long as the process, whatever becomes of its configuration.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use parking_lot::Mutex;

use crate::connections::Connections;
use crate::metrics::Metrics;

/// Shared by every state that the process has had.
#[derive(Debug, Default)]
pub(crate) struct Process {
    pub(crate) metrics: Arc<Metrics>,
    /// What becomes of the connections with MCP servers.
    pub(crate) connections: Connections,
    is_draining: AtomicBool,
    last_reload: Mutex<Option<Reload>>,
}

/// How the last look at a changed configuration went.
#[derive(Debug, Clone)]
pub(crate) struct Reload {
    pub(crate) at: SystemTime,
    /// Why it was refused: the old configuration holds.
    pub(crate) error: Option<String>,
}

impl Process {
    /// From now on no more requests are taken.
    pub(crate) fn start_draining(&self) {
        self.is_draining.store(true, Ordering::Release);
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.is_draining.load(Ordering::Acquire)
    }

    pub(crate) fn reloaded(&self, error: Option<String>) {
        let counter = match error {
            None => &self.metrics.reloads,
            Some(_) => &self.metrics.failed_reloads,
        };
        counter.fetch_add(1, Ordering::Relaxed);
        let at = SystemTime::now();
        *self.last_reload.lock() = Some(Reload { at, error });
    }

    pub(crate) fn last_reload(&self) -> Option<Reload> {
        self.last_reload.lock().clone()
    }
}
