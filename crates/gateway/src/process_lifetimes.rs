use std::path::PathBuf;

use pillion_core::store::ProcessLife;

use crate::finishing::FinishingLock;
use crate::predecessors::Predecessors;

/// This process, and the earlier processes on its socket that may still finish calls.
#[derive(Clone)]
pub(crate) struct ProcessLifetimes {
    pub(crate) own: ProcessLife,
    pub(crate) predecessors: Predecessors,
    /// The socket of this process, if it has one.
    pub(crate) socket: Option<PathBuf>,
}

impl ProcessLifetimes {
    /// Returns whether the process with this id may still finish calls. For a process without a
    /// socket, which others may run beside, this is assumed.
    pub(crate) fn may_run(&self, life: &str) -> bool {
        life == self.own.life || self.predecessors.contains(life) || self.is_finishing(life)
    }

    /// Returns whether a process still finishes its calls, which this process was not told because
    /// the sidecar between them has died.
    fn is_finishing(&self, life: &str) -> bool {
        let Some(socket) = &self.socket else {
            return true;
        };
        FinishingLock::is_held(socket, life).unwrap_or_else(|error| {
            tracing::warn!(
                %error,
                "Cannot determine whether an earlier sidecar still finishes calls: its calls count \
                 as running"
            );
            true
        })
    }
}
