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
//! - Sessions are shared by clients of the same server with the same credential, and by no
//!   others; the list has a limit, and who is on it unused is taken off after a while.
//! - At the end of the process the servers are told, within a bound of time.
//! - PHP's thread drives it while it waits; a thread of ours stands in at other times, so
//!   that connections are served (pings, event streams) while PHP runs: see [`Engine`].
//! - No PHP code ever runs inside the runtime: see [`wait`](crate::wait).

mod bound;
mod engine;
pub mod forks;
mod recent;
mod sessions;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

pub use bound::Bound;
pub use engine::{Engine, Unattended};
use futures_util::future::join_all;
use pillion_chat::HttpModel;
use pillion_client::Client;
use pillion_core::mcp::McpClient;
use pillion_core::tool::ErrorCode;
use recent::Recent;
use sessions::Sessions;

use crate::mcp::{Connection, Offers, Server};
use crate::zend::{Failure, note_interrupt};
use crate::{exception, settings};

/// How long the end of a process may take for telling MCP servers that their sessions are
/// over.
const GOODBYE: Duration = Duration::from_millis(500);

/// How long it may take for what was left behind just before its end.
const LAST_WORDS: Duration = Duration::from_millis(50);

/// What belongs to one process, and is forgotten in a forked child.
struct Process {
    engine: Arc<Engine>,
    sessions: Sessions,
    models: Recent<String, HttpModel>,
}

static PROCESS: Mutex<Option<Bound<Process>>> = Mutex::new(None);

/// Does something with the state of this process, which is made if it is not there.
fn with_process<R>(work: impl FnOnce(&mut Process) -> R) -> Result<R, Failure> {
    // A panic while the lock is held leaves a valid value behind.
    let mut slot = PROCESS.lock().unwrap_or_else(PoisonError::into_inner);
    if slot.as_ref().is_none_or(|process| process.get().is_none()) {
        let engine = start()?;
        let sessions = Sessions::new(&engine, settings::max_sessions(), settings::session_idle());
        *slot = Some(Bound::new(Process {
            engine,
            sessions,
            models: Recent::new(16),
        }));
    }
    let process = slot.as_mut().and_then(Bound::get_mut);
    process
        .map(work)
        .ok_or_else(|| Failure::error("Pillion has no runtime"))
}

fn start() -> Result<Arc<Engine>, Failure> {
    Engine::start().map_err(|error| {
        let message = format!("Pillion cannot start its thread: {error}");
        exception::of_code(ErrorCode::Unavailable, message)
    })
}

/// What runs the work of this process.
///
/// # Errors
/// An `UnavailableException` when the system gives us no threads.
pub fn engine() -> Result<Arc<Engine>, Failure> {
    with_process(|process| Arc::clone(&process.engine))
}

/// The server of that configuration, read if it is not known.
///
/// # Errors
/// What `read` fails with.
pub fn mcp_server(
    configuration: String,
    read: impl FnOnce(&str) -> Result<Server, Failure>,
) -> Result<Arc<Server>, Failure> {
    static SERVERS: Mutex<Recent<String, Arc<Server>>> = Mutex::new(Recent::new(32));
    let servers = || SERVERS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(server) = servers().get(&configuration) {
        return Ok(Arc::clone(server));
    }
    let server = Arc::new(read(&configuration)?);
    servers().add(configuration, Arc::clone(&server));
    Ok(server)
}

/// The connection of that key, with its session, made if it is not there. The key says the
/// whole configuration, credentials included: only what is all the same is shared.
///
/// # Errors
/// Same as [`engine`].
pub fn mcp_connection(
    key: &str,
    make: impl FnOnce() -> Connection,
) -> Result<Arc<Connection>, Failure> {
    with_process(|process| process.sessions.connection(key, || Arc::new(make())))
}

/// The connection of that key, if there is one.
///
/// # Errors
/// Same as [`engine`].
pub fn known_mcp_connection(key: &str) -> Result<Option<Arc<Connection>>, Failure> {
    with_process(|process| process.sessions.known(key))
}

/// Lets a connection be found under another key from now on.
///
/// # Errors
/// Same as [`engine`].
pub fn move_mcp_connection(key: &str, connection: &Arc<Connection>) -> Result<(), Failure> {
    with_process(|process| process.sessions.rename(connection, key))
}

/// Drops what an object has of its connection. Where it is the last who has it, the server
/// is told: that takes the runtime.
pub fn release(connection: Option<Bound<Arc<Connection>>>) {
    let Some(connection) = connection.and_then(Bound::into_inner) else {
        return;
    };
    let _ = with_process(|process| process.sessions.let_go([connection]));
}

/// The client of an MCP server whose questions nobody answers.
///
/// # Errors
/// Same as [`engine`].
pub fn mcp_client(server: &Server) -> Result<McpClient, Failure> {
    let tokens = server.oauth().map(|_| Arc::default());
    let make = || Connection::new(server.config().clone(), &Offers::default(), tokens);
    let connection = mcp_connection(server.key(), make)?;
    Ok(connection.client().clone())
}

/// The language model of that identity, made if it is not there: its connections stay open from
/// one request to the next.
///
/// # Errors
/// What `make` fails with, and as [`engine`].
pub fn language_model(
    identity: &str,
    make: impl FnOnce() -> Result<HttpModel, Failure>,
) -> Result<HttpModel, Failure> {
    let identity = identity.to_owned();
    let known = with_process(|process| process.models.get(&identity).cloned())?;
    if let Some(model) = known {
        return Ok(model);
    }
    let model = make()?;
    with_process(|process| process.models.add(identity, model.clone()))?;
    Ok(model)
}

/// What `phpinfo()` shows of this process.
pub struct Status {
    /// MCP sessions that are kept for later requests.
    pub sessions: usize,
    /// How many there may be.
    pub limit: usize,
}

/// The state of this process; `None` when it has not started its engine, which this does
/// not either.
pub fn status() -> Option<Status> {
    let slot = PROCESS.lock().unwrap_or_else(PoisonError::into_inner);
    let process = slot.as_ref()?.get()?;
    Some(Status {
        sessions: process.sessions.len(),
        limit: process.sessions.limit(),
    })
}

/// Ends the runtime at module shutdown, without waiting for work that is under way. The
/// servers of MCP sessions are told, side by side and for [`GOODBYE`] at most: else each
/// command-line script would leave them a session. A program that is a server ends by
/// itself, its keeper sees to that. A forked child says nothing: the sessions are its
/// parent's. Nor does a process that a signal handler ends in the middle of its work.
pub fn shut_down() {
    if Engine::is_driven_here() {
        return;
    }
    let process = {
        let mut slot = PROCESS.lock().unwrap_or_else(PoisonError::into_inner);
        slot.take().and_then(Bound::into_inner)
    };
    let Some(Process {
        engine,
        sessions,
        models,
    }) = process
    else {
        return;
    };
    // A panic has been written to the error stream; there is nobody else to tell.
    let _ = catch_unwind(AssertUnwindSafe(|| say_goodbye(&engine, &sessions)));
    drop((sessions, models));
    engine.stop();
}

fn say_goodbye(engine: &Arc<Engine>, sessions: &Sessions) {
    // The end of what was given up or let go a moment ago may not be on its way yet.
    if engine.is_untidy() {
        let tasks = engine.handle().metrics();
        engine.drive(LAST_WORDS, async {
            while tasks.num_alive_tasks() > 0 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        });
    }
    let connections = sessions.take();
    let remote: Vec<_> = connections
        .iter()
        .map(|connection| connection.client())
        .filter(|client| client.config().url().is_some())
        .collect();
    if !remote.is_empty() {
        engine.drive(
            GOODBYE,
            join_all(remote.into_iter().map(McpClient::disconnect)),
        );
    }
}

/// The client of the sidecar at `path`, with its kept-alive connections. It needs no care
/// at a fork: it sees one itself.
pub fn sidecar(path: &Path, timeout: Duration) -> Arc<Client> {
    type Key = (PathBuf, Duration, Option<u64>);
    static CLIENTS: Mutex<Recent<Key, Arc<Client>>> = Mutex::new(Recent::new(8));
    let limit = settings::max_response_bytes();
    let key = (path.to_owned(), timeout, limit);
    let mut clients = CLIENTS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(client) = clients.get(&key) {
        return Arc::clone(client);
    }
    let mut client = Client::builder(path)
        .timeout(timeout)
        .interrupt_when(note_interrupt);
    if let Some(limit) = limit {
        client = client.max_response_bytes(limit);
    }
    let client = Arc::new(client.build());
    clients.add(key, Arc::clone(&client));
    client
}
