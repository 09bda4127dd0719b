//! Connections with a server under the shared credential or under the credential of the calling
//! user.
//! Each connection routes requests and log messages of the server to the client that they belong
//! to.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use pillion_config::{CredentialPolicy, McpServerSection};
use pillion_core::tool::{ActingIdentity, CallContext, ErrorCode, Link, ToolFailure};
use pillion_mcp_client::{Callbacks, McpClient, ServerConfig};
use serde_json::value::RawValue;
use tokio::time::{Instant, sleep};

use crate::calling_client::link::{self, ClientLink};
use crate::credentials::{UserCredential, UserCredentials, server_id_from_label, url_origin};

/// Interval at which user connections are closed that are idle, or whose credential was changed or
/// removed.
pub const IDLE_CHECK_INTERVAL: Duration = Duration::from_secs(60);

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
    /// The server's ID in the store, or an ID derived from the label for a server of the
    /// configuration file.
    server_id: String,
    section: Arc<McpServerSection>,
    /// The connection under the server's shared credential.
    shared_connection: Arc<UpstreamConnection>,
    /// Whether the server was disconnected manually and must not be used.
    is_closed: AtomicBool,
    credentials: UserCredentials,
    /// The connections with the credentials of individual users, by the user's name.
    users: Mutex<HashMap<String, UserConnection>>,
}

/// A connection to the MCP server with the credential of one user.
#[derive(Debug)]
struct UserConnection {
    /// The version of the user's credential that the connection uses.
    version: String,
    connection: Arc<UpstreamConnection>,
    last_used_at: Instant,
}

/// The identity under which a call is sent to the server.
enum ActingAs<'a> {
    Server,
    User(&'a str, Box<UserCredential>),
}

impl ActingAs<'_> {
    /// Returns a text that says whose credential the call uses. The text stays the same when the
    /// credential is renewed.
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
        shared_connection: &Arc<UpstreamConnection>,
        credentials: &UserCredentials,
    ) -> Self {
        let id = section.id.clone();
        Self {
            server_id: id.unwrap_or_else(|| server_id_from_label(section.label())),
            section: Arc::clone(section),
            shared_connection: Arc::clone(shared_connection),
            is_closed: AtomicBool::new(false),
            credentials: credentials.clone(),
            users: Mutex::default(),
        }
    }

    /// Returns whether the server was disconnected manually and not connected since.
    pub(super) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Acquire)
    }

    /// Marks the server as disconnected manually. Returns `false` if the server was already
    /// disconnected.
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

    /// Closes a user's connection after its running calls. The token stores of the connection save
    /// no more OAuth tokens.
    pub(super) fn forget(&self, user: &str) {
        self.remove(&mut self.users.lock(), user, None);
    }

    /// Closes a user's connection after its running calls. The user's token stores for this server
    /// save no more OAuth tokens, except those of the credential version `current_version`.
    fn remove(
        &self,
        users: &mut HashMap<String, UserConnection>,
        user: &str,
        current_version: Option<&str>,
    ) {
        let credentials = &self.credentials;
        credentials.close_other_tokens(&self.server_id, user, current_version);
        if let Some(removed_connection) = users.remove(user) {
            close_when_unused(removed_connection.connection);
        }
    }

    /// Returns the connection for a call of this caller. If `acting_identity` has already selected a
    /// connection for the call, returns that connection.
    ///
    /// # Errors
    /// - The server was disconnected.
    /// - The call needs a user's credential, and names no user, a user that the caller may not act
    ///   for, or a user without a credential.
    /// - The call was admitted under another identity.
    pub async fn for_caller(
        &self,
        context: &CallContext,
    ) -> Result<Arc<UpstreamConnection>, ToolFailure> {
        if self.is_closed() {
            let code = ErrorCode::Unavailable;
            return Err(ToolFailure::new(code, NOT_CONNECTED_MESSAGE));
        }
        let identity = context.acting_identity.as_ref();
        if let Some(connection) = identity.and_then(|identity| identity.connection.as_ref()?.get())
        {
            return Ok(Arc::clone(connection));
        }
        let acting_as = self.resolve_identity(context).await?;
        self.check_identity(context, &acting_as)?;
        self.connection_for_identity(&acting_as)
    }

    fn connection_for_identity(
        &self,
        acting_as: &ActingAs<'_>,
    ) -> Result<Arc<UpstreamConnection>, ToolFailure> {
        match acting_as {
            ActingAs::Server => Ok(Arc::clone(&self.shared_connection)),
            ActingAs::User(user, credential) => self.user_connection(user, credential),
        }
    }

    /// Returns the identity under which a call of this caller is sent, and the connection.
    ///
    /// # Errors
    /// The same errors as [`for_caller`](Self::for_caller).
    pub(super) async fn acting_identity(
        &self,
        context: &CallContext,
    ) -> Result<ActingIdentity, ToolFailure> {
        let acting_as = self.resolve_identity(context).await?;
        let connection = self.connection_for_identity(&acting_as)?;
        let identity = acting_as.identity();
        let credential = match acting_as {
            ActingAs::Server => identity.to_owned(),
            ActingAs::User(_, credential) => credential.version,
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
        acting_as: &ActingAs<'_>,
    ) -> Result<(), ToolFailure> {
        let admitted_identity = context.acting_identity.as_ref();
        if admitted_identity.is_none_or(|admitted| admitted.identity == acting_as.identity()) {
            return Ok(());
        }
        let label = self.section.label();
        let user = context.user.as_deref().unwrap_or_default();
        let change = match acting_as {
            ActingAs::Server => "no longer has a credential",
            ActingAs::User(..) => "has a credential now",
        };
        let message = format!(
            "The credential for MCP server '{label}' changed after the call was admitted: '{user}' \
             {change}. Send the call again"
        );
        Err(ToolFailure::new(ErrorCode::Denied, message))
    }

    async fn resolve_identity<'a>(
        &self,
        context: &'a CallContext,
    ) -> Result<ActingAs<'a>, ToolFailure> {
        let policy = self.section.settings.credential;
        if policy == CredentialPolicy::Shared {
            return Ok(ActingAs::Server);
        }
        let label = self.section.label();
        let act_without_credential = |reason: String| match policy {
            CredentialPolicy::PerUser => Err(ToolFailure::new(
                ErrorCode::Denied,
                format!("MCP server '{label}' needs a credential of the user: {reason}"),
            )),
            _ => Ok(ActingAs::Server),
        };
        let Some(user) = context.user.as_deref() else {
            return act_without_credential("the call names no user".to_owned());
        };
        let Some(user) = context.verified_user().filter(|verified| *verified == user) else {
            return act_without_credential(format!(
                "the caller may not act for '{user}' (see `pillion tokens create --user`)"
            ));
        };
        let lookup = self.credentials.get(&self.server_id, user).await;
        let credential = lookup.map_err(|error| {
            tracing::error!(server.label = label, %error, "Cannot read the credential of a user");
            let message =
                format!("The credential of '{user}' for MCP server '{label}' cannot be read");
            ToolFailure::new(ErrorCode::Unavailable, message)
        })?;
        let origin = self.section.server.url().map(url_origin);
        match credential {
            Some(credential) if origin.as_ref() == Some(&credential.origin) => {
                Ok(ActingAs::User(user, Box::new(credential)))
            }
            Some(credential) => {
                self.remove(&mut self.users.lock(), user, Some(&credential.version));
                act_without_credential(format!(
                    "the credential of '{user}' was set for another URL; set the credential \
                     again with `pillion servers credentials set`"
                ))
            }
            None => {
                self.forget(user);
                act_without_credential(format!(
                    "'{user}' has no credential (see `pillion servers credentials set`)"
                ))
            }
        }
    }

    /// Returns the server's configuration with the user's credential.
    fn config_with_credential(
        &self,
        user: &str,
        credential: &UserCredential,
    ) -> Result<ServerConfig, ToolFailure> {
        let (id, server) = (&self.server_id, &self.section.server);
        let config = self
            .credentials
            .config_with_credential(id, server, user, credential);
        config.map_err(|_| {
            let label = self.section.label();
            let message = format!(
                "The credential of '{user}' cannot be used for MCP server '{label}': set the \
                 credential again"
            );
            ToolFailure::new(ErrorCode::Denied, message)
        })
    }

    /// Returns the user's connection with this credential; creates one if necessary.
    fn user_connection(
        &self,
        user: &str,
        credential: &UserCredential,
    ) -> Result<Arc<UpstreamConnection>, ToolFailure> {
        let mut users = self.users.lock();
        let now = Instant::now();
        if let Some(user_connection) = users.get_mut(user)
            && user_connection.version == credential.version
        {
            user_connection.last_used_at = now;
            return Ok(Arc::clone(&user_connection.connection));
        }
        let server = self.config_with_credential(user, credential)?;
        let connection = Arc::new(UpstreamConnection::new(server));
        let new_connection = UserConnection {
            version: credential.version.clone(),
            connection: Arc::clone(&connection),
            last_used_at: now,
        };
        let mut unneeded_connection = users.insert(user.to_owned(), new_connection);
        if users.len() > MAX_USER_CONNECTIONS {
            let other_connections = users.iter().filter(|(name, _)| *name != user);
            let oldest_user = other_connections
                .min_by_key(|(_, other_connection)| other_connection.last_used_at)
                .map(|(name, _)| name.clone());
            unneeded_connection = oldest_user.and_then(|name| users.remove(&name));
        }
        if let Some(unneeded_connection) = unneeded_connection {
            close_when_unused(unneeded_connection.connection);
        }
        Ok(connection)
    }

    /// Closes idle user connections. Also closes connections whose credential was changed or
    /// removed by another process, or while the connection was being created. Running calls finish
    /// first.
    pub(super) async fn close_idle_connections(&self) {
        let versions: Vec<_> = {
            let mut users = self.users.lock();
            let is_idle =
                |_: &String, user: &mut UserConnection| user.last_used_at.elapsed() > IDLE_TIMEOUT;
            for (_, idle_connection) in users.extract_if(is_idle) {
                close_when_unused(idle_connection.connection);
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
                    let current_version = credential.map(|credential| credential.version);
                    let mut users = self.users.lock();
                    let is_outdated = |connection: &UserConnection| connection.version == version;
                    if users.get(&user).is_some_and(is_outdated) {
                        self.remove(&mut users, &user, current_version.as_deref());
                    }
                }
                // The error is only logged here, because the user's next call fails with the same
                // error.
                Err(error) => tracing::debug!(%error, "Cannot read the credential of a user"),
            }
        }
    }
}

/// Ends a session when its calls have finished, or after [`LAST_CALLS_TIMEOUT`].
fn close_when_unused(connection: Arc<UpstreamConnection>) {
    tokio::spawn(async move {
        let started_at = Instant::now();
        while Arc::strong_count(&connection) > 1 && started_at.elapsed() < LAST_CALLS_TIMEOUT {
            sleep(Duration::from_millis(250)).await;
        }
        connection.client.disconnect().await;
    });
}

/// A connection with a server under one credential, which is the shared credential or a user's.
/// Connections never share a session, server-initiated messages or tool lists.
#[derive(Debug)]
pub struct UpstreamConnection {
    pub client: McpClient,
    router: Arc<ServerRequestRouter>,
}

impl UpstreamConnection {
    /// Creates a connection with `server`, without I/O.
    pub(super) fn new(server: ServerConfig) -> Self {
        let router = Arc::new(ServerRequestRouter::default());
        Self {
            client: McpClient::with_callbacks(server, router.callbacks()),
            router,
        }
    }

    /// Runs `forwarding`, which forwards a request to the server. Until `forwarding` ends, messages
    /// that the server initiates are sent to the client at `link`, or to no client if `link` is
    /// `None`.
    pub fn route_messages<T>(
        &self,
        link: Option<Arc<ClientLink>>,
        forwarding: impl Future<Output = T>,
    ) -> impl Future<Output = T> {
        // The future is boxed, because an async function reserves memory for each inner future
        // twice.
        self.router.route_messages(link, Box::pin(forwarding))
    }
}

tokio::task_local! {
    /// The client request that the current task forwards; `None` for a call without an MCP client.
    static CURRENT_LINK: Option<Arc<ClientLink>>;
}

/// The client requests that are in progress on one server, to route server-initiated messages to
/// the client that made the request.
///
/// Over HTTP, a message that belongs to a request arrives in the response stream of that request,
/// and so in its task. A message on another stream names no request: it is routed to a client only
/// if all requests in progress belong to that client. If there are several clients, or calls over
/// REST or in a chat, a request of the server is rejected, because another user must not see it.
#[derive(Debug, Default)]
struct ServerRequestRouter {
    running_requests: Mutex<RunningRequests>,
}

#[derive(Debug, Default)]
struct RunningRequests {
    links: Vec<Weak<ClientLink>>,
    /// Number of calls in progress without an MCP client.
    calls_without_link: usize,
}

impl ServerRequestRouter {
    /// Returns the callbacks that forward the server's requests and notifications, each to the
    /// client that it belongs to.
    fn callbacks(self: &Arc<Self>) -> Callbacks {
        let forward = |method: &'static str| {
            let router = Arc::clone(self);
            move |params: Box<RawValue>| {
                // The link is read now, because the future may be polled in another task.
                let link = router.current_link();
                async move {
                    match link {
                        Some(link) => link.send_request(method, params).await,
                        None => Err(link::unsupported_method_error(method)),
                    }
                }
            }
        };
        let router = Arc::clone(self);
        Callbacks::new()
            .on_sampling(forward("sampling/createMessage"))
            .on_elicitation(forward("elicitation/create"))
            .on_roots(forward("roots/list"))
            .on_notification_without_listening(move |notification| {
                if notification.method == "notifications/message"
                    && let Some(link) = router.current_link()
                {
                    link.forward_log(&notification.params);
                }
            })
    }

    /// Forwards a request of the client at `link`, or of a caller without an MCP client.
    async fn route_messages<T>(
        &self,
        link: Option<Arc<ClientLink>>,
        forwarding: impl Future<Output = T>,
    ) -> T {
        let registration = self.register(link.as_ref());
        let outcome = CURRENT_LINK.scope(link, forwarding).await;
        drop(registration);
        outcome
    }

    fn register(&self, link: Option<&Arc<ClientLink>>) -> RequestRegistration<'_> {
        let mut running_requests = self.running_requests.lock();
        match link {
            Some(link) => running_requests.links.push(Arc::downgrade(link)),
            None => running_requests.calls_without_link += 1,
        }
        RequestRegistration {
            router: self,
            link: link.map(Arc::downgrade),
        }
    }

    fn current_link(&self) -> Option<Arc<ClientLink>> {
        CURRENT_LINK
            .try_with(Option::clone)
            .unwrap_or_else(|_| self.only_client_link())
    }

    fn only_client_link(&self) -> Option<Arc<ClientLink>> {
        let running_requests = self.running_requests.lock();
        if running_requests.calls_without_link > 0 {
            return None;
        }
        let mut links = running_requests.links.iter().filter_map(Weak::upgrade);
        let first_link = links.next()?;
        let owner = first_link.requester.owner;
        links.try_fold(first_link, |_, link| {
            (link.requester.owner == owner).then_some(link)
        })
    }
}

/// The registration of a request in progress, which lasts until the value is dropped.
struct RequestRegistration<'a> {
    router: &'a ServerRequestRouter,
    link: Option<Weak<ClientLink>>,
}

impl Drop for RequestRegistration<'_> {
    fn drop(&mut self) {
        let mut running_requests = self.router.running_requests.lock();
        let Some(link) = &self.link else {
            running_requests.calls_without_link -= 1;
            return;
        };
        let mut links = running_requests.links.iter();
        if let Some(index) = links.position(|other| other.ptr_eq(link)) {
            running_requests.links.remove(index);
        }
    }
}

#[cfg(test)]
mod tests;
