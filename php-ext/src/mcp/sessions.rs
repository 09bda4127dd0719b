//! The connections to MCP servers, whose sessions stay open from one PHP request to the next.
//!
//! - The connections are process-wide state. FPM and the PHP command line offer no alternative:
//!   objects end with the request, and opening a session for each request would cost more than the
//!   calls of the request.
//! - Only clients of the same server with the same credential share a session. The number of
//!   sessions is limited, and an unused session ends after a while.
//! - At the end of the process the servers are notified, within a time limit.

use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use pillion_mcp_client::McpClient;
use tokio::time::sleep;

use super::connection::{ClientCapabilities, McpConnection};
use super::server::Server;
use crate::runtime::{self, Engine, PerProcess, ProcessBound, lock};
use crate::settings;
use crate::zend::Result;

/// Maximum time at the end of a process for closing its MCP sessions.
const CLOSE_SESSIONS_TIMEOUT: Duration = Duration::from_millis(500);

/// Minimum interval between checks for idle sessions.
const MIN_CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// Maximum interval between checks for idle sessions.
const MAX_CHECK_INTERVAL: Duration = Duration::from_secs(30);

static CONNECTION_POOL: PerProcess<ConnectionPool> = PerProcess::new();

/// Calls `work` with the connections of this process.
fn with_pool<R>(work: impl FnOnce(&ConnectionPool) -> R) -> Result<R> {
    let create = || Ok(ConnectionPool::new(&runtime::engine()?));
    CONNECTION_POOL.with(create, |pool| work(pool))
}

/// Returns the connection with this key and its session, or creates the connection. The key
/// contains the whole configuration including credentials, so only identical configurations share a
/// connection.
///
/// # Errors
/// An `UnavailableException` if the system cannot create threads.
pub fn find_or_create(
    key: &str,
    create: impl FnOnce() -> McpConnection,
) -> Result<Arc<McpConnection>> {
    with_pool(|pool| pool.find_or_create(key, || Arc::new(create())))
}

/// Returns the connection with this key, if it exists.
///
/// # Errors
/// An `UnavailableException` if the system cannot create threads.
pub fn find(key: &str) -> Result<Option<Arc<McpConnection>>> {
    with_pool(|pool| pool.find(key))
}

/// Moves a connection to another key.
///
/// # Errors
/// An `UnavailableException` if the system cannot create threads.
pub fn change_key(connection: &Arc<McpConnection>, key: &str) -> Result<()> {
    with_pool(|pool| pool.change_key(connection, key))
}

/// Drops an object's reference to its connection. If this is the last reference, the session ends
/// and the server is notified, which requires the runtime.
pub fn release(connection: Option<ProcessBound<Arc<McpConnection>>>) {
    let Some(connection) = connection.and_then(ProcessBound::into_inner) else {
        return;
    };
    let _ = with_pool(|pool| pool.drop_connections([connection]));
}

/// Returns an MCP client for a server. The client has no callbacks for the server's requests.
///
/// # Errors
/// An `UnavailableException` if the system cannot create threads.
pub fn client_for(server: &Server) -> Result<McpClient> {
    let tokens = server.oauth().map(|_| Arc::default());
    let capabilities = ClientCapabilities::default();
    let create = || McpConnection::new(server.config().clone(), &capabilities, tokens);
    Ok(find_or_create(server.key(), create)?.client().clone())
}

/// Returns the number of connections that the process keeps for later requests, and the maximum
/// number.
pub fn session_counts() -> (usize, usize) {
    CONNECTION_POOL
        .peek(|pool| (lock(&pool.entries).len(), pool.max_sessions))
        .unwrap_or_else(|| (0, settings::max_sessions()))
}

/// Closes all sessions concurrently, within [`CLOSE_SESSIONS_TIMEOUT`]; otherwise each command-line
/// script would leave a session on its servers. MCP servers that run as child processes need no
/// notification: a supervisor process ends them as soon as this process has ended.
pub fn close_all(engine: &Arc<Engine>) {
    let connections = CONNECTION_POOL
        .take()
        .map(|pool| pool.take_all())
        .unwrap_or_default();
    let remote_clients: Vec<_> = connections
        .iter()
        .map(|connection| connection.client())
        .filter(|client| client.config().url().is_some())
        .collect();
    if !remote_clients.is_empty() {
        engine.drive(
            CLOSE_SESSIONS_TIMEOUT,
            join_all(remote_clients.into_iter().map(McpClient::disconnect)),
        );
    }
}

/// The connections to MCP servers that a process keeps, with their sessions. Their number is
/// limited, and a connection that has been unused for a while is dropped.
struct ConnectionPool {
    engine: Arc<Engine>,
    entries: Arc<Mutex<Vec<SessionEntry>>>,
    max_sessions: usize,
}

struct SessionEntry {
    key: String,
    connection: Arc<McpConnection>,
    last_used_at: Instant,
}

impl ConnectionPool {
    fn new(engine: &Arc<Engine>) -> Self {
        let entries = Arc::default();
        if let Some(idle_timeout) = settings::session_idle_timeout() {
            let cleanup = drop_idle_connections(Arc::downgrade(&entries), idle_timeout);
            engine.handle().spawn(cleanup);
        }
        Self {
            engine: Arc::clone(engine),
            entries,
            max_sessions: settings::max_sessions(),
        }
    }

    /// Returns the connection of `key`, or creates it. Above the limit, the least recently used
    /// connection is dropped.
    fn find_or_create(
        &self,
        key: &str,
        create: impl FnOnce() -> Arc<McpConnection>,
    ) -> Arc<McpConnection> {
        let mut entries = lock(&self.entries);
        let index = entries.iter().position(|session| session.key == key);
        let existing_connection = index.map(|index| entries.remove(index).connection);
        let connection = existing_connection.unwrap_or_else(create);
        self.insert(entries, key, Arc::clone(&connection));
        connection
    }

    /// Returns the connection of `key`, if it exists.
    fn find(&self, key: &str) -> Option<Arc<McpConnection>> {
        let entries = lock(&self.entries);
        let session = entries.iter().find(|session| session.key == key)?;
        Some(Arc::clone(&session.connection))
    }

    /// Moves a connection to another key, or adds it if the pool does not contain it.
    fn change_key(&self, connection: &Arc<McpConnection>, key: &str) {
        let mut entries = lock(&self.entries);
        let is_other_session = |session: &SessionEntry| {
            session.key != key && !Arc::ptr_eq(&session.connection, connection)
        };
        let replaced: Vec<_> = entries
            .extract_if(.., |session| !is_other_session(session))
            .collect();
        self.insert(entries, key, Arc::clone(connection));
        self.drop_connections(replaced.into_iter().map(|session| session.connection));
    }

    fn insert(
        &self,
        mut entries: MutexGuard<'_, Vec<SessionEntry>>,
        key: &str,
        connection: Arc<McpConnection>,
    ) {
        entries.push(SessionEntry {
            key: key.to_owned(),
            connection,
            last_used_at: Instant::now(),
        });
        let excess_count = entries.len().saturating_sub(self.max_sessions);
        let excess_entries: Vec<_> = entries.drain(..excess_count).collect();
        drop(entries);
        self.drop_connections(excess_entries.into_iter().map(|session| session.connection));
    }

    /// Drops connections inside the runtime, because dropping the last reference ends the session.
    fn drop_connections(&self, connections: impl IntoIterator<Item = Arc<McpConnection>>) {
        let _runtime_guard = self.engine.handle().enter();
        for connection in connections {
            if Arc::into_inner(connection).is_some() {
                self.engine.schedule_cleanup();
            }
        }
    }

    /// Removes and returns all connections.
    fn take_all(&self) -> Vec<Arc<McpConnection>> {
        let entries = std::mem::take(&mut *lock(&self.entries));
        entries.into_iter().map(|entry| entry.connection).collect()
    }
}

/// Drops idle connections at intervals, until the list of sessions is dropped.
async fn drop_idle_connections(entries: Weak<Mutex<Vec<SessionEntry>>>, idle_timeout: Duration) {
    let check_interval = (idle_timeout / 4).clamp(MIN_CHECK_INTERVAL, MAX_CHECK_INTERVAL);
    loop {
        sleep(check_interval).await;
        let Some(entries) = entries.upgrade() else {
            return;
        };
        let now = Instant::now();
        let idle_entries: Vec<_> = lock(&entries)
            .extract_if(.., |session| {
                if Arc::strong_count(&session.connection) > 1
                    || session.connection.client().is_shared()
                {
                    // A session is in use while an object holds the connection or a call is
                    // running.
                    session.last_used_at = now;
                }
                now.duration_since(session.last_used_at) >= idle_timeout
            })
            .collect();
        // The connections are dropped outside the lock, because the drop ends each session on its
        // server.
        drop(idle_entries);
    }
}
