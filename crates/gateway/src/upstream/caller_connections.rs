//! Connections with a server under its own credential or under the credential of the calling user.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use pillion_config::{CredentialPolicy, McpServerSection};
use pillion_core::tool::{ActingIdentity, CallContext, ErrorCode, Link, ToolFailure};
use pillion_mcp_client::ServerConfig;
use tokio::time::{Instant, sleep};

use super::connection::UpstreamConnection;
use crate::credentials::{UserCredential, UserCredentials, file_id, origin_of};

/// Interval at which unused user connections, and those whose credential was changed or removed,
/// are closed.
pub const SWEEP_INTERVAL: Duration = Duration::from_secs(60);

/// Maximum number of user connections per server. Above the limit, the least recently used
/// connection is closed.
const MAX_USER_CONNECTIONS: usize = 1_000;

/// Time after which an unused user connection is closed.
const IDLE_TIMEOUT: Duration = Duration::from_secs(15 * 60);

/// Maximum time for running calls to finish on a closed connection.
const LAST_CALLS_TIMEOUT: Duration = Duration::from_secs(600);

/// The error message for a server that was disconnected manually.
pub(super) const NOT_CONNECTED_MESSAGE: &str = "Not connected to server";

/// The connections with one server. Chooses the connection of each call.
#[derive(Debug)]
pub struct CallerConnections {
    /// The server's id in the store, or an id derived from the label for a server of the
    /// configuration file.
    server_id: String,
    section: Arc<McpServerSection>,
    /// The connection under the server's own credential.
    shared: Arc<UpstreamConnection>,
    /// Whether the server was disconnected manually and must not be used.
    is_closed: AtomicBool,
    credentials: UserCredentials,
    /// The connections of single users, by name.
    users: Mutex<HashMap<String, UserConnection>>,
}

/// The connection of a user.
#[derive(Debug)]
struct UserConnection {
    /// The version of the credential.
    version: String,
    connection: Arc<UpstreamConnection>,
    used: Instant,
}

/// The identity under which a call is sent.
enum Acting<'a> {
    Server,
    User(&'a str, Box<UserCredential>),
}

impl Acting<'_> {
    /// Returns the kind of identity, which stays the same when a credential is renewed.
    fn identity(&self) -> &'static str {
        match self {
            Self::Server => "the server itself",
            Self::User(..) => "the user",
        }
    }
}

impl CallerConnections {
    pub(super) fn new(
        section: &Arc<McpServerSection>,
        shared: &Arc<UpstreamConnection>,
        credentials: &UserCredentials,
    ) -> Self {
        let id = section.id.clone();
        Self {
            server_id: id.unwrap_or_else(|| file_id(section.label())),
            section: Arc::clone(section),
            shared: Arc::clone(shared),
            is_closed: AtomicBool::new(false),
            credentials: credentials.clone(),
            users: Mutex::default(),
        }
    }

    /// Returns whether the server was disconnected manually and not connected since.
    pub(super) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Acquire)
    }

    /// Marks the server as disconnected manually. Returns `true` if the server was open.
    pub(super) fn close(&self) -> bool {
        !self.is_closed.swap(true, Ordering::AcqRel)
    }

    /// Marks the server as usable again.
    pub(super) fn open(&self) {
        self.is_closed.store(false, Ordering::Release);
    }

    /// Removes and returns all connections of users.
    pub(super) fn take_all(&self) -> Vec<Arc<UpstreamConnection>> {
        let users = std::mem::take(&mut *self.users.lock());
        users.into_values().map(|user| user.connection).collect()
    }

    /// Closes a user's connection after its running calls. Its token stores save no more OAuth
    /// tokens.
    pub(super) fn forget(&self, user: &str) {
        self.remove(&mut self.users.lock(), user, None);
    }

    /// Closes a user's connection after its running calls. Token stores of other credential versions
    /// than `current` save no more OAuth tokens.
    fn remove(
        &self,
        users: &mut HashMap<String, UserConnection>,
        user: &str,
        current: Option<&str>,
    ) {
        let credentials = &self.credentials;
        credentials.close_other_tokens(&self.server_id, user, current);
        if let Some(removed) = users.remove(user) {
            close_when_unused(removed.connection);
        }
    }

    /// Returns the connection for a call of this caller: the connection that `acting_identity` has
    /// selected, if the call still has that identity.
    ///
    /// # Errors
    /// If the server was disconnected; if the call names no user, a user that the caller may not
    /// act for, or a user without a credential; or if the call was admitted, and possibly approved,
    /// under another identity.
    pub async fn for_caller(
        &self,
        context: &CallContext,
    ) -> Result<Arc<UpstreamConnection>, ToolFailure> {
        if self.is_closed() {
            return Err(ToolFailure::new(
                ErrorCode::Unavailable,
                NOT_CONNECTED_MESSAGE,
            ));
        }
        let acting_identity = context.acting_identity.as_ref();
        if let Some(connection) =
            acting_identity.and_then(|acting_identity| acting_identity.connection.as_ref()?.get())
        {
            return Ok(Arc::clone(connection));
        }
        let acting = self.acting(context).await?;
        self.check_identity(context, &acting)?;
        self.for_identity(&acting)
    }

    fn for_identity(&self, acting: &Acting<'_>) -> Result<Arc<UpstreamConnection>, ToolFailure> {
        match acting {
            Acting::Server => Ok(Arc::clone(&self.shared)),
            Acting::User(user, credential) => self.user_connection(user, credential),
        }
    }

    /// Returns the identity under which a call of this caller is sent, and the connection.
    ///
    /// # Errors
    /// As for [`for_caller`](Self::for_caller).
    pub(super) async fn acting_identity(
        &self,
        context: &CallContext,
    ) -> Result<ActingIdentity, ToolFailure> {
        let acting = self.acting(context).await?;
        let connection = self.for_identity(&acting)?;
        let identity = acting.identity();
        let credential = match acting {
            Acting::Server => identity.to_owned(),
            Acting::User(_, credential) => credential.version,
        };
        Ok(ActingIdentity {
            connection: Some(Link::new(connection)),
            ..ActingIdentity::new(identity, credential)
        })
    }

    /// Rejects a call whose identity has changed since the call was admitted. A renewed credential
    /// of the same user does not change the identity.
    fn check_identity(
        &self,
        context: &CallContext,
        acting: &Acting<'_>,
    ) -> Result<(), ToolFailure> {
        let Some(before) = &context.acting_identity else {
            return Ok(());
        };
        if before.identity == acting.identity() {
            return Ok(());
        }
        let label = self.section.label();
        let user = context.user.as_deref().unwrap_or_default();
        let what = match acting {
            Acting::Server => "no longer has a credential",
            Acting::User(..) => "has a credential now",
        };
        let message = format!(
            "The credential for MCP server '{label}' changed after the call was admitted: '{user}' \
             {what}. Send the call again"
        );
        Err(ToolFailure::new(ErrorCode::Denied, message))
    }

    async fn acting<'a>(&self, context: &'a CallContext) -> Result<Acting<'a>, ToolFailure> {
        let policy = self.section.settings.credential;
        if policy == CredentialPolicy::Shared {
            return Ok(Acting::Server);
        }
        let label = self.section.label();
        let without = |why: String| match policy {
            CredentialPolicy::PerUser => Err(ToolFailure::new(
                ErrorCode::Denied,
                format!("MCP server '{label}' needs a credential of the user: {why}"),
            )),
            _ => Ok(Acting::Server),
        };
        let Some(user) = context.user.as_deref() else {
            return without("the call names no user".to_owned());
        };
        let Some(user) = context.verified_user().filter(|verified| *verified == user) else {
            return without(format!(
                "the caller may not act for '{user}' (see `pillion tokens create --user`)"
            ));
        };
        let read = self.credentials.get(&self.server_id, user).await;
        let found = read.map_err(|error| {
            tracing::error!(server.label = label, %error, "Cannot read the credential of a user");
            ToolFailure::new(
                ErrorCode::Unavailable,
                format!("The credential of '{user}' for MCP server '{label}' cannot be read"),
            )
        })?;
        let origin = self.section.server.url().map(origin_of);
        match found {
            Some(credential) if origin.as_ref() == Some(&credential.origin) => {
                Ok(Acting::User(user, Box::new(credential)))
            }
            Some(credential) => {
                self.remove(&mut self.users.lock(), user, Some(&credential.version));
                without(format!(
                    "the credential of '{user}' was set for another URL; set it again with \
                     `pillion servers credentials set`"
                ))
            }
            None => {
                self.forget(user);
                without(format!(
                    "'{user}' has no credential (see `pillion servers credentials set`)"
                ))
            }
        }
    }

    /// Returns the server's configuration with the user's credential.
    fn server_for(
        &self,
        user: &str,
        credential: &UserCredential,
    ) -> Result<ServerConfig, ToolFailure> {
        let unusable = || {
            let label = self.section.label();
            let message = format!(
                "The credential of '{user}' cannot be used for MCP server '{label}': set it again"
            );
            ToolFailure::new(ErrorCode::Denied, message)
        };
        let mut server = self.section.server.clone();
        if credential.is_oauth() {
            let credentials = &self.credentials;
            let tokens =
                credentials.tokens_of_user(&server, &self.server_id, user, &credential.version);
            server.authorization.token_store = Some(tokens.ok_or_else(unusable)?);
        } else {
            server.authentication = credential.authentication().map_err(|_| unusable())?;
        }
        server.validate().map_err(|_| unusable())?;
        Ok(server)
    }

    /// Returns the user's connection with this credential; creates one if necessary.
    fn user_connection(
        &self,
        user: &str,
        credential: &UserCredential,
    ) -> Result<Arc<UpstreamConnection>, ToolFailure> {
        let mut users = self.users.lock();
        let now = Instant::now();
        if let Some(known) = users.get_mut(user)
            && known.version == credential.version
        {
            known.used = now;
            return Ok(Arc::clone(&known.connection));
        }
        let connection = Arc::new(UpstreamConnection::to(self.server_for(user, credential)?));
        let created = UserConnection {
            version: credential.version.clone(),
            connection: Arc::clone(&connection),
            used: now,
        };
        let mut closed = users.insert(user.to_owned(), created);
        if users.len() > MAX_USER_CONNECTIONS {
            let others = users.iter().filter(|(name, _)| *name != user);
            let oldest = others
                .min_by_key(|(_, other)| other.used)
                .map(|(name, _)| name.clone());
            closed = oldest.and_then(|name| users.remove(&name));
        }
        if let Some(closed) = closed {
            close_when_unused(closed.connection);
        }
        Ok(connection)
    }

    /// Closes idle user connections. Also closes those whose credential was changed or removed by
    /// another process, or while the connection was being created. Running calls finish first.
    pub(super) async fn sweep(&self) {
        let versions: Vec<_> = {
            let mut users = self.users.lock();
            let is_idle =
                |_: &String, user: &mut UserConnection| user.used.elapsed() > IDLE_TIMEOUT;
            for (_, idle) in users.extract_if(is_idle) {
                close_when_unused(idle.connection);
            }
            let pairs = users.iter();
            pairs
                .map(|(name, user)| (name.clone(), user.version.clone()))
                .collect()
        };
        for (user, version) in versions {
            match self.credentials.get(&self.server_id, &user).await {
                Ok(Some(credential)) if credential.version == version => {}
                Ok(credential) => {
                    let current = credential.map(|credential| credential.version);
                    let mut users = self.users.lock();
                    let is_outdated = |known: &UserConnection| known.version == version;
                    if users.get(&user).is_some_and(is_outdated) {
                        self.remove(&mut users, &user, current.as_deref());
                    }
                }
                // The next caller gets this error.
                Err(error) => tracing::debug!(%error, "Cannot read the credential of a user"),
            }
        }
    }
}

/// Ends a session when its calls have finished.
fn close_when_unused(connection: Arc<UpstreamConnection>) {
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
    use pillion_config::ServerSettings;
    use pillion_store::{MasterKey, Vault};
    use serde_json::json;

    use super::*;
    use crate::test_support::memory_store;

    #[tokio::test]
    async fn l1_removing_a_credential_closes_its_unused_connection() {
        let store = memory_store().await;
        let vault = Vault::open(store, MasterKey::generate()).await.unwrap();
        let credentials = UserCredentials::default();
        credentials.set_vault(Some(Arc::new(vault)));
        let definition = json!({"label": "far", "url": "http://127.0.0.1:9/"});
        let server: ServerConfig = serde_json::from_value(definition).unwrap();
        let shared = Arc::new(UpstreamConnection::to(server.clone()));
        let section = McpServerSection::new(ServerSettings::default(), server, "far");
        let connections = CallerConnections::new(&Arc::new(section), &shared, &credentials);
        let server_id = &connections.server_id;
        for user in ["alice", "bob", "carol"] {
            let bearer = json!({"type": "bearer", "token": user});
            let credential = UserCredential::new("place".to_owned(), bearer).unwrap();
            credentials.put(server_id, user, &credential).await.unwrap();
            connections.user_connection(user, &credential).unwrap();
        }
        let connected = || {
            let mut names: Vec<_> = connections.users.lock().keys().cloned().collect();
            names.sort();
            names
        };
        connections.sweep().await;
        assert_eq!(connected(), ["alice", "bob", "carol"]);
        // Removing the credential in the store, as another process would, notifies no part of this
        // process.
        credentials.remove(server_id, "alice").await.unwrap();
        let bearer = json!({"type": "bearer", "token": "another"});
        let other = UserCredential::new("place".to_owned(), bearer).unwrap();
        credentials.put(server_id, "bob", &other).await.unwrap();
        connections.sweep().await;
        assert_eq!(connected(), ["carol"]);
    }
}
