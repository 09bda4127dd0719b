//! The state of the process: the tokio runtime, and the MCP clients whose sessions stay open from
//! one PHP request to the next.
//!
//! This is the only module with process-wide state. FPM and the PHP command line offer no
//! alternative: objects end with the request, and opening a session for each request would cost
//! more than the calls in it.
//!
//! - The runtime is created on first use, never at module startup: FPM forks its workers after
//!   module startup, and threads do not survive a fork.
//! - After a fork (`pcntl_fork`) the child creates its own runtime. It leaks the parent's runtime
//!   instead of dropping it: the drop would wait for threads that do not exist in the child, or
//!   take locks that those threads held.
//! - Only clients of the same server with the same credential share a session. The number of
//!   sessions is limited, and an unused session ends after a while.
//! - At the end of the process the servers are notified, within a time limit.
//! - PHP's thread drives the runtime while it waits. A background thread drives it at other times,
//!   so that connections are served (pings, event streams) while PHP runs: see [`Engine`].
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
pub use engine::{Engine, UnattendedGuard};
use futures_util::future::join_all;
use pillion_chat::HttpModel;
use pillion_client::Client;
use pillion_core::tool::ErrorCode;
use pillion_mcp_client::McpClient;
use recent::LruCache;
use sessions::ConnectionPool;

use crate::mcp::{ClientCapabilities, McpConnection, Server};
use crate::zend::{Failure, note_interrupt};
use crate::{exception, settings};

/// Maximum time at the end of a process for closing its MCP sessions.
const CLOSE_SESSIONS_TIMEOUT: Duration = Duration::from_millis(500);

/// Maximum time for work that was abandoned just before the end of the process.
const ABANDONED_WORK_TIMEOUT: Duration = Duration::from_millis(50);

/// The state of one process. A forked child leaks it.
struct Process {
    engine: Arc<Engine>,
    sessions: ConnectionPool,
    models: LruCache<String, HttpModel>,
}

static PROCESS: Mutex<Option<Bound<Process>>> = Mutex::new(None);

/// Calls `work` with the state of this process, and creates the state if it does not exist.
fn with_process<R>(work: impl FnOnce(&mut Process) -> R) -> Result<R, Failure> {
    // A panic while the lock is held leaves a valid value behind.
    let mut slot = PROCESS.lock().unwrap_or_else(PoisonError::into_inner);
    if slot.as_ref().is_none_or(|process| process.get().is_none()) {
        let engine = start_engine()?;
        let sessions =
            ConnectionPool::new(&engine, settings::max_sessions(), settings::session_idle());
        *slot = Some(Bound::new(Process {
            engine,
            sessions,
            models: LruCache::new(16),
        }));
    }
    let process = slot.as_mut().and_then(Bound::get_mut);
    process
        .map(work)
        .ok_or_else(|| Failure::error("Pillion has no runtime"))
}

fn start_engine() -> Result<Arc<Engine>, Failure> {
    Engine::start().map_err(|error| {
        let message = format!("Pillion cannot start its thread: {error}");
        exception::for_code(ErrorCode::Unavailable, message)
    })
}

/// Returns the engine of this process.
///
/// # Errors
/// An `UnavailableException` if the system cannot create threads.
pub fn engine() -> Result<Arc<Engine>, Failure> {
    with_process(|process| Arc::clone(&process.engine))
}

/// Returns the server with this configuration. Calls `read` if the server is unknown.
///
/// # Errors
/// The failure of `read`.
pub fn mcp_server(
    configuration: String,
    read: impl FnOnce(&str) -> Result<Server, Failure>,
) -> Result<Arc<Server>, Failure> {
    static SERVERS: Mutex<LruCache<String, Arc<Server>>> = Mutex::new(LruCache::new(32));
    let servers = || SERVERS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(server) = servers().get(&configuration) {
        return Ok(Arc::clone(server));
    }
    let server = Arc::new(read(&configuration)?);
    servers().add(configuration, Arc::clone(&server));
    Ok(server)
}

/// Returns the connection with this key and its session, and creates it if it does not exist. The
/// key covers the whole configuration including credentials, so only identical configurations share
/// a connection.
///
/// # Errors
/// Same as [`engine`].
pub fn mcp_connection(
    key: &str,
    make: impl FnOnce() -> McpConnection,
) -> Result<Arc<McpConnection>, Failure> {
    with_process(|process| process.sessions.connection(key, || Arc::new(make())))
}

/// Returns the connection with this key, if there is one.
///
/// # Errors
/// Same as [`engine`].
pub fn find_mcp_connection(key: &str) -> Result<Option<Arc<McpConnection>>, Failure> {
    with_process(|process| process.sessions.find(key))
}

/// Moves a connection to another key.
///
/// # Errors
/// Same as [`engine`].
pub fn move_mcp_connection(key: &str, connection: &Arc<McpConnection>) -> Result<(), Failure> {
    with_process(|process| process.sessions.rename(connection, key))
}

/// Drops an object's reference to its connection. If this is the last reference, the session ends
/// and the server is notified, which requires the runtime.
pub fn release(connection: Option<Bound<Arc<McpConnection>>>) {
    let Some(connection) = connection.and_then(Bound::into_inner) else {
        return;
    };
    let _ = with_process(|process| process.sessions.drop_connections([connection]));
}

/// Returns a client of an MCP server without callbacks for the server's requests.
///
/// # Errors
/// Same as [`engine`].
pub fn mcp_client(server: &Server) -> Result<McpClient, Failure> {
    let tokens = server.oauth().map(|_| Arc::default());
    let make = || {
        McpConnection::new(
            server.config().clone(),
            &ClientCapabilities::default(),
            tokens,
        )
    };
    let connection = mcp_connection(server.key(), make)?;
    Ok(connection.client().clone())
}

/// Returns the language model with this identity, and creates it if it does not exist. Its
/// connections stay open from one request to the next.
///
/// # Errors
/// The failure of `make`, and same as [`engine`].
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

/// The values that `phpinfo()` shows about this process.
pub struct ProcessInfo {
    /// The number of MCP sessions that are kept for later requests.
    pub sessions: usize,
    /// The maximum number of kept sessions.
    pub limit: usize,
}

/// Returns the state of this process. Returns `None` if the process has not started its engine;
/// this function does not start it.
pub fn status() -> Option<ProcessInfo> {
    let slot = PROCESS.lock().unwrap_or_else(PoisonError::into_inner);
    let process = slot.as_ref()?.get()?;
    Some(ProcessInfo {
        sessions: process.sessions.len(),
        limit: process.sessions.limit(),
    })
}

/// Ends the runtime at module shutdown, without waiting for running work. The MCP sessions are
/// closed in parallel, within [`CLOSE_SESSIONS_TIMEOUT`]; otherwise each command-line script would
/// leave a session on its servers. MCP servers that run as child processes need no notification: a
/// helper process ends them as soon as this process has ended. A forked child closes no sessions,
/// because they belong to its parent. Neither does a process that a signal handler ends while work
/// is running.
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
    // The panic has already been written to stderr, and there is no other place to report it.
    let _ = catch_unwind(AssertUnwindSafe(|| close_sessions(&engine, &sessions)));
    drop((sessions, models));
    engine.stop();
}

fn close_sessions(engine: &Arc<Engine>, sessions: &ConnectionPool) {
    // The tasks that end abandoned calls or dropped sessions may not have run yet.
    if engine.has_cleanup() {
        let tasks = engine.handle().metrics();
        engine.drive(ABANDONED_WORK_TIMEOUT, async {
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
            CLOSE_SESSIONS_TIMEOUT,
            join_all(remote.into_iter().map(McpClient::disconnect)),
        );
    }
}

/// Returns the client of the sidecar at `path`, with its kept-alive connections. A fork needs no
/// special handling, because the client detects it.
pub fn sidecar(path: &Path, timeout: Duration) -> Arc<Client> {
    type Key = (PathBuf, Duration, Option<u64>);
    static CLIENTS: Mutex<LruCache<Key, Arc<Client>>> = Mutex::new(LruCache::new(8));
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
