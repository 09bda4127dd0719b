//! The state of the process: the tokio runtime, and the MCP clients whose sessions stay
//! warm from one PHP request to the next.
//!
//! This is the one place with process-wide state. FPM and the PHP command line leave no
//! other: objects end with the request, and a session that is opened anew for each request
//! costs more than the calls in it.
//!
//! - The runtime is made on first use, never at module start-up: FPM forks its workers
//!   after that, and threads do not survive a fork.
//! - After a fork (`pcntl_fork`) the child makes a runtime of its own. The parent's is
//!   forgotten, not dropped: dropping it would wait for threads that are not there, or
//!   take locks that they held.
//! - It has one worker thread, so that connections are served (pings, event streams)
//!   while PHP runs; a current-thread runtime would stand still between two calls.
//! - No PHP code ever runs inside `block_on`: see [`wait`](crate::wait).

mod recent;

use std::mem::ManuallyDrop;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use nix::sys::signal::SigSet;
use pillion_client::Client;
use pillion_core::mcp::McpClient;
use pillion_core::tool::ErrorCode;
use recent::Recent;
use tokio::runtime::{Builder, Handle, Runtime};

use crate::exception;
use crate::mcp::{Connection, Offers, Server};
use crate::zend::{Failure, note_interrupt};

/// At most so many MCP sessions are kept for later requests.
const SESSIONS: usize = 64;

/// What belongs to one process, and is forgotten in a forked child.
struct Process {
    runtime: Runtime,
    clients: Recent<String, Arc<Connection>>,
}

static PROCESS: Mutex<Option<Bound<Process>>> = Mutex::new(None);

/// Does something with the state of this process, which is made if it is not there.
fn with_process<R>(work: impl FnOnce(&mut Process) -> R) -> Result<R, Failure> {
    // A panic while the lock is held leaves a valid value behind.
    let mut slot = PROCESS.lock().unwrap_or_else(PoisonError::into_inner);
    if slot.as_ref().is_none_or(|process| process.get().is_none()) {
        *slot = Some(Bound::new(Process {
            runtime: start()?,
            clients: Recent::new(SESSIONS),
        }));
    }
    let process = slot.as_mut().and_then(Bound::get_mut);
    process
        .map(work)
        .ok_or_else(|| Failure::error("Pillion has no runtime"))
}

fn start() -> Result<Runtime, Failure> {
    Builder::new_multi_thread()
        .worker_threads(1)
        .max_blocking_threads(4)
        .thread_name("pillion")
        .on_thread_start(leave_signals_to_php)
        .enable_all()
        .build()
        .map_err(|error| {
            exception::of_code(
                ErrorCode::Unavailable,
                format!("Pillion cannot start its thread: {error}"),
            )
        })
}

/// The runtime of this process.
///
/// # Errors
/// An `UnavailableException` when the system gives us no threads.
pub fn handle() -> Result<Handle, Failure> {
    with_process(|process| process.runtime.handle().clone())
}

/// The connection of that key, with its session, made if it is not there. The key says the
/// whole configuration, credentials included: only what is all the same is shared.
///
/// # Errors
/// As [`handle`].
pub fn mcp_connection(
    key: &str,
    make: impl FnOnce() -> Connection,
) -> Result<Arc<Connection>, Failure> {
    with_process(|process| {
        let made = || Arc::new(make());
        Arc::clone(process.clients.get_or_insert(key.to_owned(), made))
    })
}

/// The connection of that key, if there is one.
///
/// # Errors
/// As [`handle`].
pub fn known_mcp_connection(key: &str) -> Result<Option<Arc<Connection>>, Failure> {
    with_process(|process| process.clients.get(key).cloned())
}

/// Lets a connection be found under another key too.
///
/// # Errors
/// As [`handle`].
pub fn mcp_connection_of(key: &str, connection: Arc<Connection>) -> Result<(), Failure> {
    with_process(|process| {
        process.clients.get_or_insert(key.to_owned(), || connection);
    })
}

/// The client of an MCP server whose questions nobody answers.
///
/// # Errors
/// As [`handle`].
pub fn mcp_client(server: &Server) -> Result<McpClient, Failure> {
    let tokens = server.oauth().map(|_| Arc::default());
    let make = || Connection::new(server.config().clone(), &Offers::default(), tokens);
    let connection = mcp_connection(server.key(), make)?;
    Ok(connection.client().clone())
}

/// Ends the runtime at module shutdown, without waiting for work that is under way.
pub fn shut_down() {
    let mut slot = PROCESS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(process) = slot.take().and_then(Bound::into_inner) {
        drop(process.clients);
        process.runtime.shutdown_background();
    }
}

/// The client of the sidecar at `path`, with its kept-alive connections. It needs no care
/// at a fork: it sees one itself.
pub fn sidecar(path: &Path, timeout: Duration) -> Arc<Client> {
    static CLIENTS: Mutex<Recent<(PathBuf, Duration), Arc<Client>>> = Mutex::new(Recent::new(8));
    let key = (path.to_owned(), timeout);
    let mut clients = CLIENTS.lock().unwrap_or_else(PoisonError::into_inner);
    let client = clients.get_or_insert(key, || {
        Arc::new(
            Client::builder(path)
                .timeout(timeout)
                .interrupt_when(note_interrupt)
                .build(),
        )
    });
    Arc::clone(client)
}

/// PHP's signal handlers must run on PHP's thread: `pcntl` and the timer behind
/// `max_execution_time` write to the engine's globals. So ours take no signals.
fn leave_signals_to_php() {
    // Without it a signal handler runs on the wrong thread now and then; there is nothing
    // better to do about a failure here.
    let _ = SigSet::all().thread_block();
}

/// A value that only the process that made it may use or drop: anything with connections,
/// tasks or threads behind it. In a forked child it is forgotten.
#[derive(Debug)]
pub struct Bound<T> {
    value: ManuallyDrop<T>,
    process: u32,
}

impl<T> Bound<T> {
    /// Binds a value to this process.
    pub fn new(value: T) -> Self {
        Self {
            value: ManuallyDrop::new(value),
            process: std::process::id(),
        }
    }

    /// The value, in the process that made it.
    pub fn get(&self) -> Option<&T> {
        self.is_ours().then_some(&*self.value)
    }

    fn get_mut(&mut self) -> Option<&mut T> {
        self.is_ours().then_some(&mut *self.value)
    }

    /// The value, in the process that made it; elsewhere it is forgotten.
    pub fn into_inner(mut self) -> Option<T> {
        let ours = self.is_ours();
        // Nobody owns it any more, so that `drop` leaves the value alone.
        self.process = 0;
        // SAFETY: the value is taken once: `self` ends here and `drop` does not touch it.
        ours.then(|| unsafe { ManuallyDrop::take(&mut self.value) })
    }

    fn is_ours(&self) -> bool {
        self.process == std::process::id()
    }
}

impl<T> Drop for Bound<T> {
    fn drop(&mut self) {
        if self.is_ours() {
            // SAFETY: dropped once, here.
            unsafe { ManuallyDrop::drop(&mut self.value) };
        }
    }
}
