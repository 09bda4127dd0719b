mod authorization;
mod serving;

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::sync::Arc;
use std::time::Instant;

use ext_php_rs::types::Zval;
use pillion_mcp_client::{McpClient, McpError, OAuthGrant, TransportKind};
use serde_json::json;
use serde_json::value::RawValue;

use super::connection::{ClientCapabilities, McpConnection};
use super::credentials;
use super::hooks::Hooks;
use super::router::{CallHandle, NotificationInbox};
use super::server::Server;
use super::server_job::ServerJob;
use super::sessions;
use super::token_slot::TokenSlot;
use super::waiting_client::WaitingClient;
use crate::exception;
use crate::json::{EmptyObject, decode, encode_arguments};
use crate::log::LogLevel;
use crate::runtime::ProcessBound;
use crate::wait::{JobSender, wait};
use crate::zend::{MethodCall, Outcome, Result, empty_array};

/// Links a PHP object to its server's configuration and to the connection that the object uses.
pub struct ServerLink {
    server: Arc<Server>,
    /// The log message for a request to the server.
    request_message: &'static str,
    /// The log message for a response of the server.
    response_message: &'static str,
    capabilities: RefCell<ClientCapabilities>,
    connection: RefCell<Option<ProcessBound<Arc<McpConnection>>>>,
    inbox: Arc<NotificationInbox>,
    /// The number of changes to the server's list of tools that this object has reported to PHP.
    reported_change_count: Cell<u64>,
    /// Whether the user was asked for an authorization since this flag was last reset.
    has_prompted_user: Cell<bool>,
}

/// The callable that receives the progress of the calls that PHP waits for.
pub struct ProgressReceiver<'a> {
    /// The PHP callable that receives the progress.
    pub callable: &'a Zval,
    /// The IDs of the calls that PHP waits for.
    pub ids: &'a [String],
}

impl ServerLink {
    /// Creates the link of an `MCPSSEClient`, whose log messages differ from those of `McpClient`.
    pub fn for_sse_client(server: Arc<Server>) -> Self {
        Self::new(server, "MCP SSE Request", "MCP SSE Response")
    }

    /// Creates the link of an `McpClient`.
    pub fn for_mcp_client(server: Arc<Server>) -> Self {
        Self::new(server, "MCP Request", "MCP Response")
    }

    fn new(
        server: Arc<Server>,
        request_message: &'static str,
        response_message: &'static str,
    ) -> Self {
        Self {
            server,
            request_message,
            response_message,
            capabilities: RefCell::default(),
            connection: RefCell::default(),
            inbox: Arc::default(),
            reported_change_count: Cell::new(0),
            has_prompted_user: Cell::new(false),
        }
    }

    /// Returns the configuration of the server.
    pub fn server(&self) -> &Arc<Server> {
        &self.server
    }

    /// Changes the capabilities that the client announces. The next call uses another connection.
    pub fn change_capabilities(&self, change: impl FnOnce(&mut ClientCapabilities)) {
        let mut capabilities = self.capabilities.borrow_mut();
        let previous_capabilities = capabilities.clone();
        change(&mut capabilities);
        if *capabilities != previous_capabilities {
            self.forget_connection();
        }
    }

    /// Drops the object's reference to its connection. The next call finds or creates a connection.
    pub fn forget_connection(&self) {
        sessions::release(self.connection.replace(None));
    }

    /// Returns the object's connection. If the object has no connection, finds or creates one and
    /// stores it.
    ///
    /// # Errors
    /// An `UnavailableException` if the system cannot create threads. An exception of the token
    /// store, or an `InvalidInputException` if the store returns an invalid entry.
    pub fn connection(&self, hooks: Hooks<'_>) -> Result<Arc<McpConnection>> {
        if let Some(connection) = self.current_connection() {
            return Ok(connection);
        }
        let connection = self.find_connection(hooks)?;
        connection.router().subscribe(&self.inbox);
        self.reported_change_count
            .set(connection.router().tools_change_count());
        let bound_connection = ProcessBound::new(Arc::clone(&connection));
        self.connection.replace(Some(bound_connection));
        Ok(connection)
    }

    /// Returns the object's connection, if the object has one that belongs to this process.
    fn current_connection(&self) -> Option<Arc<McpConnection>> {
        self.connection
            .borrow()
            .as_ref()
            .and_then(ProcessBound::get)
            .cloned()
    }

    fn find_connection(&self, hooks: Hooks<'_>) -> Result<Arc<McpConnection>> {
        let create_connection = |tokens| {
            let config = self.server.config().clone();
            McpConnection::new(config, &self.capabilities.borrow(), tokens)
        };
        if self.server.oauth().is_none() {
            let create = || create_connection(None);
            return sessions::find_or_create(&self.connection_key(None), create);
        }
        let stored_tokens = credentials::load(hooks, &self.server)?;
        // The connection's key contains the tokens, so that two users share a session only if they
        // have the same tokens.
        let key = match (&stored_tokens, self.has_user_tokens()) {
            (Some(stored_tokens), true) => Some(self.connection_key(Some(&stored_tokens.json))),
            // The connection is not shared before the user has granted an authorization, because it
            // is still unknown whose tokens the connection will have.
            (None, true) => None,
            (_, false) => Some(self.connection_key(None)),
        };
        let create = || {
            let tokens =
                TokenSlot::new(stored_tokens.map(|stored_tokens| stored_tokens.credentials));
            create_connection(Some(Arc::new(tokens)))
        };
        match key {
            Some(key) => sessions::find_or_create(&key, create),
            None => Ok(Arc::new(create())),
        }
    }

    /// Returns a string that identifies the server and the credentials. Returns `None` while the
    /// user has not granted an authorization.
    ///
    /// # Errors
    /// The same errors as [`connection`](Self::connection).
    pub fn identity(&self, hooks: Hooks<'_>) -> Result<Option<String>> {
        let mut identity = self.server.key().to_owned();
        if self.has_user_tokens() {
            let connection = self.connection(hooks)?;
            let Some(tokens) = connection.tokens().and_then(|tokens| tokens.to_json()) else {
                return Ok(None);
            };
            identity.push_str(&tokens);
        }
        Ok(Some(identity))
    }

    /// Returns whether requests to the server contain the OAuth tokens of a user.
    fn has_user_tokens(&self) -> bool {
        let oauth = self.server.oauth();
        oauth.is_some_and(|oauth| oauth.grant == OAuthGrant::AuthorizationCode)
    }

    /// Returns the key of the connections with the configuration of this link and the given tokens.
    fn connection_key(&self, tokens: Option<&str>) -> String {
        let mut key = self.server.key().to_owned();
        self.capabilities.borrow().append_to_key(&mut key);
        key.push_str(tokens.unwrap_or_default());
        key
    }

    /// Sends one request, waits for the response, and logs the request and the response.
    ///
    /// # Errors
    /// The exception for the failed request, or an exception of PHP code that ran during the wait.
    pub fn send<T, F>(
        &self,
        hooks: Hooks<'_>,
        method: &str,
        request: impl FnOnce(McpClient) -> F,
    ) -> Result<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, McpError>> + Send + 'static,
    {
        let outcome = self.run(hooks, method, None, |client, _| request(client))?;
        outcome.or_else(|error| Err(self.convert_error(hooks, &error)?))
    }

    /// Runs `work` with the MCP client. PHP code such as callbacks can run during the wait, as in
    /// [`send`](Self::send). `progress_receiver` receives the progress of the work.
    ///
    /// # Errors
    /// An exception of PHP code that ran during the wait, or the end of the request.
    pub fn run<T, E, F>(
        &self,
        hooks: Hooks<'_>,
        method: &str,
        progress_receiver: Option<&ProgressReceiver<'_>>,
        work: impl FnOnce(McpClient, &CallHandle) -> F,
    ) -> Result<Result<T, E>>
    where
        T: Send + 'static,
        E: std::fmt::Display + Send + 'static,
        F: Future<Output = Result<T, E>> + Send + 'static,
    {
        let connection = self.connection(hooks)?;
        self.deliver(hooks, &connection)?;
        hooks.log(
            LogLevel::Debug,
            self.request_message,
            || json!({"url": self.server.display_url(), "method": method}),
        )?;
        let started_at = Instant::now();
        self.connect_for_authorization(hooks, &connection)?;
        let client = connection.client().clone();
        let waiting_client =
            WaitingClient::for_connection(self, hooks, Arc::clone(&connection), progress_receiver);
        // The future is boxed: it is large, and each move would copy it.
        let outcome = waiting_client.wait(|handle| Box::pin(work(client, handle)))?;
        drop(waiting_client);
        self.deliver_after_call(hooks, &connection)?;
        hooks.log(LogLevel::Debug, self.response_message, || {
            let error = outcome.as_ref().err().map(ToString::to_string);
            json!({
                "method": method,
                "transport": connection.client().transport().map(TransportKind::name),
                "duration_ms": started_at.elapsed().as_millis() as u64,
                "error": error,
            })
        })?;
        Ok(outcome)
    }

    /// Registers a call of this object with the connection's router.
    pub fn open_call(
        &self,
        connection: &McpConnection,
        job_sender: JobSender<ServerJob>,
    ) -> CallHandle {
        connection.router().open_call(job_sender, &self.inbox)
    }

    /// Returns whether the server responds to a request now.
    ///
    /// # Errors
    /// An exception of PHP code that ran during the wait.
    pub fn is_available(&self, hooks: Hooks<'_>) -> Result<bool> {
        let outcome = self.run(hooks, "ping", None, |client, _| async move {
            Ok::<_, McpError>(client.is_available().await)
        })?;
        Ok(outcome.unwrap_or_default())
    }

    /// Ends the session for all objects that share it. The next call of one of these objects opens
    /// a new session.
    ///
    /// # Errors
    /// A failure that ends the wait, such as an exception of a signal handler. The wait takes at
    /// most one second.
    pub fn disconnect(&self) -> Result<()> {
        // The shared connection is looked up, because another object or an earlier request may have
        // opened it even if this object has no connection.
        let client = match self.current_connection() {
            Some(connection) => connection.client().clone(),
            None if self.server.oauth().is_some() => return Ok(()),
            None => match sessions::find(&self.connection_key(None))? {
                Some(connection) => connection.client().clone(),
                None => return Ok(()),
            },
        };
        wait(async move {
            client.disconnect().await;
            client.reopen();
        })
    }
}

impl Drop for ServerLink {
    fn drop(&mut self) {
        self.forget_connection();
    }
}

/// Converts a server's message to a PHP value.
///
/// # Errors
/// A `TransportException` if the message is not valid JSON.
pub fn decode_message(json: &RawValue, empty_object: EmptyObject) -> Outcome {
    decode(json.get(), empty_object)?.map_err(|error| {
        exception::transport_failure(format!(
            "MCP request failed: the response cannot be read: {error}"
        ))
    })
}

/// Returns an argument as a JSON object. An omitted argument becomes `{}`.
///
/// # Errors
/// A `TypeError` if the argument is not an array; an `InvalidInputException` if JSON cannot
/// represent it.
pub fn read_arguments(call: &MethodCall<'_>, index: usize) -> Result<Box<RawValue>> {
    match call.optional_array(index)? {
        Some(arguments) => encode_arguments(arguments),
        None => encode_arguments(&empty_array()),
    }
}
