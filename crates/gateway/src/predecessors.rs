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

/// Maximum number of predecessors that are handed over to a successor, which is enough for one
/// restart per second.
const MAX_PREDECESSORS: usize = 60;

/// Maximum time in which an ending process closes its resources.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(100);

/// An earlier process from which this process took over its sockets, directly or through other
/// processes.
#[derive(Debug)]
pub struct Predecessor {
    /// The process's ID in the call log.
    pub run_id: String,
    /// A connection to the process, which the process closes only when it ends.
    pub connection: Option<OwnedFd>,
}

/// The predecessors of this process. Cheap to clone; all clones share one list.
#[derive(Debug, Clone, Default)]
pub struct Predecessors(Arc<Mutex<Vec<Predecessor>>>);

impl Predecessors {
    /// Creates the list from `predecessors`, oldest first.
    pub fn new(predecessors: Vec<Predecessor>) -> Self {
        Self(Arc::new(Mutex::new(predecessors)))
    }

    /// Returns the IDs of the predecessors, oldest first.
    pub fn ids(&self) -> Vec<String> {
        self.0
            .lock()
            .iter()
            .map(|predecessor| predecessor.run_id.clone())
            .collect()
    }

    pub(crate) fn contains(&self, run_id: &str) -> bool {
        self.0
            .lock()
            .iter()
            .any(|predecessor| predecessor.run_id == run_id)
    }

    /// Returns copies of the newest predecessors for a successor, oldest first.
    pub fn copy_newest(&self) -> io::Result<Vec<Predecessor>> {
        let predecessors = self.0.lock();
        let newest_predecessors = predecessors
            .iter()
            .skip(predecessors.len().saturating_sub(MAX_PREDECESSORS));
        let copies = newest_predecessors.map(|predecessor| {
            let connection = predecessor.connection.as_ref();
            Ok(Predecessor {
                run_id: predecessor.run_id.clone(),
                connection: connection.map(OwnedFd::try_clone).transpose()?,
            })
        });
        copies.collect()
    }

    /// Waits in the background for the end of each predecessor, then removes the predecessor from
    /// the list and calls `on_end`. Must be called only after the predecessors have sent their last
    /// messages to this process.
    pub fn watch<F>(&self, on_end: impl Fn() -> F + Clone + Send + 'static)
    where
        F: Future<Output = ()> + Send,
    {
        let predecessors = self.copy_newest().unwrap_or_default();
        for Predecessor { run_id, connection } in predecessors {
            let Some(connection) = connection else {
                // Without a connection, the end of this predecessor cannot be observed.
                continue;
            };
            let (list, on_end) = (self.clone(), on_end.clone());
            tokio::spawn(async move {
                if let Err(error) = wait_for_close(connection).await {
                    tracing::warn!(run_id, %error, "Cannot observe when the previous sidecar ends");
                    return;
                }
                tracing::info!(run_id, "The previous sidecar has ended");
                // The removal is delayed, because the process closes its connections in any order,
                // so other connections of the process may still be open.
                tokio::time::sleep(CLOSE_TIMEOUT).await;
                list.0
                    .lock()
                    .retain(|predecessor| predecessor.run_id != run_id);
                on_end().await;
            });
        }
    }
}

/// Resolves when the peer closes `connection`.
async fn wait_for_close(connection: OwnedFd) -> io::Result<()> {
    let stream = StdStream::from(connection);
    stream.set_nonblocking(true)?;
    let stream = UnixStream::from_std(stream)?;
    loop {
        stream.readable().await?;
        match stream.try_read(&mut [0; 64]) {
            Ok(0) => return Ok(()),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            // A connection with a read error counts as closed.
            Err(_) => return Ok(()),
        }
    }
}

/// Returns a duplicate of the connection's descriptor.
pub fn clone_connection(stream: &UnixStream) -> io::Result<OwnedFd> {
    stream.as_fd().try_clone_to_owned()
}

/// This process, and the earlier processes with the same socket that may still finish calls.
#[derive(Clone)]
pub(crate) struct ProcessRuns {
    /// This process.
    pub(crate) current_run: ProcessRun,
    pub(crate) predecessors: Predecessors,
    /// The socket of this process, if it has one.
    pub(crate) socket: Option<PathBuf>,
}

impl ProcessRuns {
    /// Returns whether the process with the ID `run_id` may still finish calls. Returns `true` if
    /// this process has no socket, because other processes may then run beside it.
    pub(crate) fn may_run(&self, run_id: &str) -> bool {
        run_id == self.current_run.run_id
            || self.predecessors.contains(run_id)
            || self.is_finishing(run_id)
    }

    /// Returns whether a process that is not among `predecessors` still finishes its calls. An
    /// earlier process is missing from `predecessors` if the sidecar that would have handed it over
    /// has died.
    fn is_finishing(&self, run_id: &str) -> bool {
        let Some(socket) = &self.socket else {
            return true;
        };
        FinishingLock::is_held(socket, run_id).unwrap_or_else(|error| {
            tracing::warn!(
                %error,
                "Cannot determine whether an earlier sidecar is still finishing calls: that \
                 sidecar's calls count as running"
            );
            true
        })
    }
}
