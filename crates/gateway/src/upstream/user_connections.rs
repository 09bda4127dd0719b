use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use pillion_core::tool::ToolFailure;
use pillion_mcp_client::ServerConfig;
use tokio::time::{Instant, sleep};

use super::connection::UpstreamConnection;
use crate::credentials::{UserCredential, UserCredentials};

/// Maximum number of user connections per server. Above the limit, the least recently used
/// connection is closed.
const MAX_USER_CONNECTIONS: usize = 1_000;

/// Time after which an unused user connection is closed.
const IDLE_TIMEOUT: Duration = Duration::from_secs(15 * 60);

/// Maximum time for running calls to finish on a closed connection.
const LAST_CALLS_TIMEOUT: Duration = Duration::from_secs(600);

/// The connections of single users with a server.
#[derive(Debug)]
pub(super) struct UserConnections {
    pub(super) credentials: UserCredentials,
    connections: Mutex<ConnectionMap>,
}

#[derive(Debug, Default)]
struct ConnectionMap {
    by_user: HashMap<String, UserConnection>,
}

#[derive(Debug)]
struct UserConnection {
    /// The version of the credential.
    version: String,
    connection: Arc<UpstreamConnection>,
    used: Instant,
}

impl UserConnections {
    pub(super) fn new(credentials: &UserCredentials) -> Self {
        Self {
            credentials: credentials.clone(),
            connections: Mutex::default(),
        }
    }

    /// Closes the user's connection with the server `server` after its running calls. Token stores
    /// of other credential versions than `good` save no more OAuth tokens.
    pub(super) fn forget(&self, server: &str, user: &str, good: Option<&str>) {
        self.credentials.close_other_tokens(server, user, good);
        if let Some(entry) = self.connections.lock().by_user.remove(user) {
            give_up(entry.connection);
        }
    }

    /// Closes idle connections with the server `server`, and connections whose credential was
    /// changed or removed by another process or while the connection was being created.
    pub(super) async fn sweep(&self, server: &str) {
        let known: Vec<_> = {
            let mut connections = self.connections.lock();
            connections.close_idle(Instant::now());
            let entry = connections.by_user.iter();
            entry
                .map(|(user, entry)| (user.clone(), entry.version.clone()))
                .collect()
        };
        for (user, version) in known {
            match self.credentials.get(server, &user).await {
                Ok(Some(credential)) if credential.version == version => {}
                Ok(now) => {
                    let good = now.map(|credential| credential.version);
                    self.close_other_versions(server, &user, &version, good.as_deref());
                }
                // The error is returned to the next caller.
                Err(error) => tracing::debug!(%error, "Cannot read the credential of a user"),
            }
        }
    }

    fn close_other_versions(&self, server: &str, user: &str, version: &str, good: Option<&str>) {
        let mut connections = self.connections.lock();
        let is_it = |entry: &UserConnection| entry.version == version;
        if connections.by_user.get(user).is_some_and(is_it) {
            self.credentials.close_other_tokens(server, user, good);
            if let Some(entry) = connections.by_user.remove(user) {
                give_up(entry.connection);
            }
        }
    }

    /// Removes and returns all connections.
    pub(super) fn take_all(&self) -> Vec<Arc<UpstreamConnection>> {
        let taken = self.connections.lock().by_user.drain().collect::<Vec<_>>();
        taken
            .into_iter()
            .map(|(_, entry)| entry.connection)
            .collect()
    }

    /// Returns the connection with this credential; creates one if necessary.
    pub(super) fn connection(
        &self,
        user: &str,
        credential: &UserCredential,
        server: impl FnOnce() -> Result<ServerConfig, ToolFailure>,
    ) -> Result<Arc<UpstreamConnection>, ToolFailure> {
        let mut connections = self.connections.lock();
        let now = Instant::now();
        if let Some(entry) = connections.by_user.get_mut(user)
            && entry.version == credential.version
        {
            entry.used = now;
            return Ok(Arc::clone(&entry.connection));
        }
        let connection = Arc::new(UpstreamConnection::to(server()?));
        let entry = UserConnection {
            version: credential.version.clone(),
            connection: Arc::clone(&connection),
            used: now,
        };
        if !connections.by_user.contains_key(user) {
            connections.make_room();
        }
        if let Some(before) = connections.by_user.insert(user.to_owned(), entry) {
            give_up(before.connection);
        }
        Ok(connection)
    }
}

impl ConnectionMap {
    /// Closes the least recently used connection if the limit is reached.
    fn make_room(&mut self) {
        if self.by_user.len() < MAX_USER_CONNECTIONS {
            return;
        }
        let entries = self.by_user.iter();
        let oldest = entries
            .min_by_key(|(_, entry)| entry.used)
            .map(|(user, _)| user.clone());
        if let Some(entry) = oldest.and_then(|user| self.by_user.remove(&user)) {
            give_up(entry.connection);
        }
    }

    /// Closes connections that have been idle for too long.
    fn close_idle(&mut self, now: Instant) {
        let idle =
            |_: &String, entry: &mut UserConnection| now.duration_since(entry.used) > IDLE_TIMEOUT;
        for (_, entry) in self.by_user.extract_if(idle) {
            give_up(entry.connection);
        }
    }
}

/// Ends a session when its calls have finished.
fn give_up(connection: Arc<UpstreamConnection>) {
    tokio::spawn(async move {
        let since = Instant::now();
        while Arc::strong_count(&connection) > 1 && since.elapsed() < LAST_CALLS_TIMEOUT {
            sleep(Duration::from_millis(250)).await;
        }
        connection.client.disconnect().await;
    });
}

#[cfg(test)]
mod tests {
    use pillion_store::{MasterKey, SqlStore, StoreLocation, StoreOptions, Vault};
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn l1_removing_a_credential_closes_its_unused_connection() {
        let options = StoreOptions::new(StoreLocation::Memory);
        let store = Arc::new(SqlStore::open(&options).await.unwrap());
        let vault = Vault::open(store, MasterKey::generate()).await.unwrap();
        let credentials = UserCredentials::default();
        credentials.set_vault(Some(Arc::new(vault)));
        let users = UserConnections::new(&credentials);
        let mut received = Vec::new();
        for user in ["alice", "bob", "carol"] {
            let bearer = json!({"type": "bearer", "token": user});
            let credential = UserCredential::new("place".to_owned(), bearer).unwrap();
            credentials.put("far", user, &credential).await.unwrap();
            let server = || {
                Ok(
                    serde_json::from_value(json!({"label": "far", "url": "http://127.0.0.1:9/"}))
                        .unwrap(),
                )
            };
            users.connection(user, &credential, server).unwrap();
            received.push(credential);
        }
        let connected = || {
            let connections = users.connections.lock();
            let mut names: Vec<_> = connections.by_user.keys().cloned().collect();
            names.sort();
            names
        };
        users.sweep("far").await;
        assert_eq!(connected(), ["alice", "bob", "carol"]);
        // Removed as by another process: nothing in this process is notified.
        credentials.remove("far", "alice").await.unwrap();
        let bearer = json!({"type": "bearer", "token": "another"});
        let other = UserCredential::new("place".to_owned(), bearer).unwrap();
        credentials.put("far", "bob", &other).await.unwrap();
        users.sweep("far").await;
        assert_eq!(connected(), ["carol"]);
    }
}
