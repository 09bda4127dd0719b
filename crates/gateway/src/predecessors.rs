//! Earlier processes that are still finishing calls on the sockets of this process (`--take-over`).

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream as StdStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use pillion_core::store::ProcessRun;
use tokio::net::UnixStream;

use crate::finishing::FinishingLock;

/// Maximum number of predecessors that are handed over: enough for one restart per second.
const MAX_PREDECESSORS: usize = 60;

/// Maximum time in which an ending process closes its resources.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(100);

/// An earlier process on the sockets of this process.
#[derive(Debug)]
pub struct Predecessor {
    /// The process's id in the call log.
    pub run_id: String,
    /// A connection whose other end the process holds until it ends.
    pub line: Option<OwnedFd>,
}

/// The predecessors of this process. Cheap to clone; all clones share one list.
#[derive(Debug, Clone, Default)]
pub struct Predecessors(Arc<Mutex<Vec<Predecessor>>>);

impl Predecessors {
    /// Creates the list from `all`, oldest first.
    pub fn new(all: Vec<Predecessor>) -> Self {
        Self(Arc::new(Mutex::new(all)))
    }

    /// Returns the ids of the predecessors, oldest first.
    pub fn ids(&self) -> Vec<String> {
        self.0.lock().iter().map(|one| one.run_id.clone()).collect()
    }

    pub(crate) fn contains(&self, run_id: &str) -> bool {
        self.0.lock().iter().any(|one| one.run_id == run_id)
    }

    /// Returns copies of the newest predecessors for a successor, oldest first.
    pub fn copied(&self) -> io::Result<Vec<Predecessor>> {
        let all = self.0.lock();
        let young = all.iter().skip(all.len().saturating_sub(MAX_PREDECESSORS));
        let copied = young.map(|one| {
            let line = one.line.as_ref();
            Ok(Predecessor {
                run_id: one.run_id.clone(),
                line: line.map(OwnedFd::try_clone).transpose()?,
            })
        });
        copied.collect()
    }

    /// Waits for the end of each predecessor, removes the predecessor, and calls `has_ended`. Must
    /// be called only after the predecessors have sent their last messages.
    pub fn watch<F>(&self, has_ended: impl Fn() -> F + Clone + Send + 'static)
    where
        F: Future<Output = ()> + Send,
    {
        let copied = self.copied().unwrap_or_default();
        for Predecessor { run_id, line } in copied {
            let Some(line) = line else {
                // The end of this predecessor cannot be observed.
                continue;
            };
            let (this, has_ended) = (self.clone(), has_ended.clone());
            tokio::spawn(async move {
                if let Err(error) = end_of(line).await {
                    tracing::warn!(%error, "Cannot observe when the previous sidecar ends");
                    return;
                }
                tracing::info!(run_id, "The previous sidecar has ended");
                // The process closes its connections in any order, so others may still be open.
                tokio::time::sleep(CLOSE_TIMEOUT).await;
                this.0.lock().retain(|one| one.run_id != run_id);
                has_ended().await;
            });
        }
    }
}

/// Resolves when the other end of the connection `line` is closed.
async fn end_of(line: OwnedFd) -> io::Result<()> {
    let stream = StdStream::from(line);
    stream.set_nonblocking(true)?;
    let stream = UnixStream::from_std(stream)?;
    loop {
        stream.readable().await?;
        match stream.try_read(&mut [0; 64]) {
            Ok(0) => return Ok(()),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            // A broken connection counts as closed.
            Err(_) => return Ok(()),
        }
    }
}

/// Returns another descriptor of the same connection.
pub fn clone_connection(stream: &UnixStream) -> io::Result<OwnedFd> {
    stream.as_fd().try_clone_to_owned()
}

/// This process, and the earlier processes on its socket that may still finish calls.
#[derive(Clone)]
pub(crate) struct ProcessRuns {
    pub(crate) own: ProcessRun,
    pub(crate) predecessors: Predecessors,
    /// The socket of this process, if it has one.
    pub(crate) socket: Option<PathBuf>,
}

impl ProcessRuns {
    /// Returns whether the process with the id `run_id` may still finish calls. This is assumed if
    /// this process has no socket, because other processes may then run beside it.
    pub(crate) fn may_run(&self, run_id: &str) -> bool {
        run_id == self.own.run_id || self.predecessors.contains(run_id) || self.is_finishing(run_id)
    }

    /// Returns whether an earlier process still finishes its calls that is not among
    /// `predecessors`, because the sidecar that would have handed it over has died.
    fn is_finishing(&self, run_id: &str) -> bool {
        let Some(socket) = &self.socket else {
            return true;
        };
        FinishingLock::is_held(socket, run_id).unwrap_or_else(|error| {
            tracing::warn!(
                %error,
                "Cannot determine whether an earlier sidecar still finishes calls: its calls count \
                 as running"
            );
            true
        })
    }
}
