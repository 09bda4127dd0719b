use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use tokio::time::sleep;

use super::Engine;
use crate::mcp::McpConnection;

/// Minimum interval between checks for idle sessions.
const MIN_CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// Maximum interval between checks for idle sessions.
const MAX_CHECK_INTERVAL: Duration = Duration::from_secs(30);

/// The connections to MCP servers that a process keeps, with their sessions. Their number is
/// limited, and a connection that has been unused for a while is dropped.
pub(super) struct ConnectionPool {
    engine: Arc<Engine>,
    entries: Arc<Mutex<Vec<SessionEntry>>>,
    limit: usize,
}

struct SessionEntry {
    key: String,
    connection: Arc<McpConnection>,
    last_used: Instant,
}

impl ConnectionPool {
    /// Creates an empty collection. Connections that are unused for `idle` are dropped, if it is
    /// given.
    pub(super) fn new(engine: &Arc<Engine>, limit: usize, idle: Option<Duration>) -> Self {
        let entries = Arc::default();
        if let Some(idle) = idle {
            let handle = engine.handle();
            handle.spawn(drop_idle_connections(Arc::downgrade(&entries), idle));
        }
        Self {
            engine: Arc::clone(engine),
            entries,
            limit,
        }
    }

    /// Returns the connection of `key`, and creates it if it does not exist. Beyond the limit, the
    /// least recently used connection is dropped.
    pub(super) fn connection(
        &self,
        key: &str,
        make: impl FnOnce() -> Arc<McpConnection>,
    ) -> Arc<McpConnection> {
        let mut entries = lock(&self.entries);
        let index = entries.iter().position(|session| session.key == key);
        let known = index.map(|index| entries.remove(index).connection);
        let connection = known.unwrap_or_else(make);
        self.insert(entries, key, Arc::clone(&connection));
        connection
    }

    /// Returns the connection of `key`, if it exists.
    pub(super) fn find(&self, key: &str) -> Option<Arc<McpConnection>> {
        let entries = lock(&self.entries);
        let session = entries.iter().find(|session| session.key == key)?;
        Some(Arc::clone(&session.connection))
    }

    /// Moves a connection to another key, or adds it if it is not in the collection.
    pub(super) fn rename(&self, connection: &Arc<McpConnection>, key: &str) {
        let mut entries = lock(&self.entries);
        let others = |session: &SessionEntry| {
            session.key != key && !Arc::ptr_eq(&session.connection, connection)
        };
        let replaced: Vec<_> = entries.extract_if(.., |session| !others(session)).collect();
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
            last_used: Instant::now(),
        });
        let excess = entries.len().saturating_sub(self.limit);
        let excess_entries: Vec<_> = entries.drain(..excess).collect();
        drop(entries);
        self.drop_connections(excess_entries.into_iter().map(|session| session.connection));
    }

    /// Drops connections inside the runtime. Dropping the last reference ends the session.
    pub(super) fn drop_connections(
        &self,
        connections: impl IntoIterator<Item = Arc<McpConnection>>,
    ) {
        let _runtime = self.engine.handle().enter();
        for connection in connections {
            if Arc::into_inner(connection).is_some() {
                self.engine.schedule_cleanup();
            }
        }
    }

    pub(super) fn len(&self) -> usize {
        lock(&self.entries).len()
    }

    pub(super) fn limit(&self) -> usize {
        self.limit
    }

    /// Removes and returns all connections.
    pub(super) fn take(&self) -> Vec<Arc<McpConnection>> {
        let entries = std::mem::take(&mut *lock(&self.entries));
        entries
            .into_iter()
            .map(|session| session.connection)
            .collect()
    }
}

/// A panic while the lock is held leaves a valid list behind.
fn lock(entries: &Mutex<Vec<SessionEntry>>) -> MutexGuard<'_, Vec<SessionEntry>> {
    entries.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs until the list is dropped.
async fn drop_idle_connections(entries: Weak<Mutex<Vec<SessionEntry>>>, idle: Duration) {
    let interval = (idle / 4).clamp(MIN_CHECK_INTERVAL, MAX_CHECK_INTERVAL);
    loop {
        sleep(interval).await;
        let Some(entries) = entries.upgrade() else {
            return;
        };
        let now = Instant::now();
        let idle_entries: Vec<_> = lock(&entries)
            .extract_if(.., |session| {
                if Arc::strong_count(&session.connection) > 1
                    || session.connection.client().is_shared()
                {
                    // An object holds the connection, or a call is running.
                    session.last_used = now;
                }
                now.duration_since(session.last_used) >= idle
            })
            .collect();
        // Dropped outside the lock, because the drop ends each session at its server.
        drop(idle_entries);
    }
}
