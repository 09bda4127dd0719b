use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use tokio::time::sleep;

use super::Engine;
use crate::mcp::Connection;

/// The shortest and the longest interval between checks for idle sessions.
const LOOK: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(30));

/// The connections to MCP servers that a process keeps, with their sessions. Their number is
/// limited, and a connection that has been unused for a while is dropped.
pub(super) struct Sessions {
    engine: Arc<Engine>,
    kept: Arc<Mutex<Vec<Kept>>>,
    limit: usize,
}

struct Kept {
    key: String,
    connection: Arc<Connection>,
    used: Instant,
}

impl Sessions {
    /// Creates an empty collection. Connections that are unused for `idle` are dropped, if it is
    /// given.
    pub(super) fn new(engine: &Arc<Engine>, limit: usize, idle: Option<Duration>) -> Self {
        let kept = Arc::default();
        if let Some(idle) = idle {
            let handle = engine.handle();
            handle.spawn(give_up_idle(Arc::downgrade(&kept), idle));
        }
        Self {
            engine: Arc::clone(engine),
            kept,
            limit,
        }
    }

    /// Returns the connection of `key`, and creates it if it does not exist. Beyond the limit, the
    /// least recently used connection is dropped.
    pub(super) fn connection(
        &self,
        key: &str,
        make: impl FnOnce() -> Arc<Connection>,
    ) -> Arc<Connection> {
        let mut kept = lock(&self.kept);
        let place = kept.iter().position(|session| session.key == key);
        let known = place.map(|place| kept.remove(place).connection);
        let connection = known.unwrap_or_else(make);
        self.keep(kept, key, Arc::clone(&connection));
        connection
    }

    /// Returns the connection of `key`, if it exists.
    pub(super) fn known(&self, key: &str) -> Option<Arc<Connection>> {
        let kept = lock(&self.kept);
        let session = kept.iter().find(|session| session.key == key)?;
        Some(Arc::clone(&session.connection))
    }

    /// Keeps a connection under another key, whether or not it was kept before.
    pub(super) fn rename(&self, connection: &Arc<Connection>, key: &str) {
        let mut kept = lock(&self.kept);
        let others =
            |session: &Kept| session.key != key && !Arc::ptr_eq(&session.connection, connection);
        let replaced: Vec<_> = kept.extract_if(.., |session| !others(session)).collect();
        self.keep(kept, key, Arc::clone(connection));
        self.let_go(replaced.into_iter().map(|session| session.connection));
    }

    fn keep(&self, mut kept: MutexGuard<'_, Vec<Kept>>, key: &str, connection: Arc<Connection>) {
        kept.push(Kept {
            key: key.to_owned(),
            connection,
            used: Instant::now(),
        });
        let beyond = kept.len().saturating_sub(self.limit);
        let given_up: Vec<_> = kept.drain(..beyond).collect();
        drop(kept);
        self.let_go(given_up.into_iter().map(|session| session.connection));
    }

    /// Drops connections inside the runtime. Dropping the last reference ends the session.
    pub(super) fn let_go(&self, connections: impl IntoIterator<Item = Arc<Connection>>) {
        let _inside = self.engine.handle().enter();
        for connection in connections {
            if Arc::into_inner(connection).is_some() {
                self.engine.clear_up();
            }
        }
    }

    pub(super) fn len(&self) -> usize {
        lock(&self.kept).len()
    }

    pub(super) fn limit(&self) -> usize {
        self.limit
    }

    /// Removes and returns all connections.
    pub(super) fn take(&self) -> Vec<Arc<Connection>> {
        let kept = std::mem::take(&mut *lock(&self.kept));
        kept.into_iter().map(|session| session.connection).collect()
    }
}

/// A panic while the lock is held leaves a valid list behind.
fn lock(kept: &Mutex<Vec<Kept>>) -> MutexGuard<'_, Vec<Kept>> {
    kept.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs until the list is dropped.
async fn give_up_idle(kept: Weak<Mutex<Vec<Kept>>>, idle: Duration) {
    let pause = (idle / 4).clamp(LOOK.0, LOOK.1);
    loop {
        sleep(pause).await;
        let Some(kept) = kept.upgrade() else { return };
        let now = Instant::now();
        let idle_ones: Vec<_> = lock(&kept)
            .extract_if(.., |session| {
                if Arc::strong_count(&session.connection) > 1
                    || session.connection.client().is_shared()
                {
                    // An object holds the connection, or a call is running.
                    session.used = now;
                }
                now.duration_since(session.used) >= idle
            })
            .collect();
        // Dropped outside the lock, because the drop ends each session at its server.
        drop(idle_ones);
    }
}
