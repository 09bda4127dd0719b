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
use crate::runtime::Bound;
use crate::wait::{JobSender, wait};
use crate::zend::{Failure, MethodCall, Outcome, empty_array};

/// Links a PHP object to its server's configuration and to the connection that the object uses.
pub struct ServerLink {
    server: Arc<Server>,
    /// The messages with which requests and responses are logged.
    request_message: &'static str,
    response_message: &'static str,
    capabilities: RefCell<ClientCapabilities>,
    connection: RefCell<Option<Bound<Arc<McpConnection>>>>,
    inbox: Arc<NotificationInbox>,
    /// The number of changes of the server's tools that this object has reported.
    reported_changes: Cell<u64>,
    /// Whether the user was asked for an authorization since the last reset.
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
    /// Creates the link of an `MCPSSEClient`, whose log messages differ.
    pub fn sse(server: Arc<Server>) -> Self {
        Self::new(server, "MCP SSE Request", "MCP SSE Response")
    }

    /// Creates the link of an `McpClient`.
    pub fn mcp(server: Arc<Server>) -> Self {
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
            reported_changes: Cell::new(0),
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
        let before = capabilities.clone();
        change(&mut capabilities);
        if *capabilities != before {
            self.forget_connection();
        }
    }

    /// Drops the object's reference to its connection. The next call finds a connection again.
    pub fn forget_connection(&self) {
        sessions::release(self.connection.replace(None));
    }

    /// Returns the object's connection. If the object has none, finds or creates one and keeps it.
    ///
    /// # Errors
    /// An `UnavailableException` if the system cannot create threads. An exception of the token
    /// store, or an `InvalidInputException` if the store returns an invalid entry.
    pub fn connection(&self, hooks: Hooks<'_>) -> Result<Arc<McpConnection>, Failure> {
        if let Some(connection) = self.connection.borrow().as_ref().and_then(Bound::get) {
            return Ok(Arc::clone(connection));
        }
        let connection = self.find_connection(hooks)?;
        connection.router().subscribe(&self.inbox);
        self.reported_changes.set(connection.router().changes());
        let bound = Bound::new(Arc::clone(&connection));
        self.connection.replace(Some(bound));
        Ok(connection)
    }

    fn find_connection(&self, hooks: Hooks<'_>) -> Result<Arc<McpConnection>, Failure> {
        let new = |tokens| {
            let config = self.server.config().clone();
            McpConnection::new(config, &self.capabilities.borrow(), tokens)
        };
        if self.server.oauth().is_none() {
            let make = || new(None);
            return sessions::connection(&self.key(None), make);
        }
        let stored = credentials::load(hooks, &self.server)?;
        // The key contains the tokens, so that two users share a session only if they have the same
        // tokens.
        let key = match (&stored, self.is_personal()) {
            (Some(stored), true) => Some(self.key(Some(&stored.text))),
            // Until the user has granted an authorization, it is unknown whose tokens the
            // connection will have, so the connection is not shared.
            (None, true) => None,
            (_, false) => Some(self.key(None)),
        };
        let make = || {
            let tokens = TokenSlot::new(stored.map(|stored| stored.credentials));
            new(Some(Arc::new(tokens)))
        };
        match key {
            Some(key) => sessions::connection(&key, make),
            None => Ok(Arc::new(make())),
        }
    }

    /// Returns a string that identifies the server and the credentials. Returns `None` while there
    /// are no credentials.
    ///
    /// # Errors
    /// The failures of [`connection`](Self::connection).
    pub fn identity(&self, hooks: Hooks<'_>) -> Result<Option<String>, Failure> {
        let mut identity = self.server.key().to_owned();
        if self.is_personal() {
            let connection = self.connection(hooks)?;
            let Some(tokens) = connection.tokens().and_then(|tokens| tokens.text()) else {
                return Ok(None);
            };
            identity.push_str(&tokens);
        }
        Ok(Some(identity))
    }

    /// Returns whether requests to the server carry the tokens of a user.
    fn is_personal(&self) -> bool {
        let oauth = self.server.oauth();
        oauth.is_some_and(|oauth| oauth.grant == OAuthGrant::AuthorizationCode)
    }

    /// Returns the key of the connection with this configuration and these tokens.
    fn key(&self, tokens: Option<&str>) -> String {
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
    ) -> Result<T, Failure>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, McpError>> + Send + 'static,
    {
        let outcome = self.run(hooks, method, None, |client, _| request(client))?;
        outcome.or_else(|error| Err(self.failure(hooks, &error)?))
    }

    /// Runs any kind of work with the client, as [`send`](Self::send) sends a request.
    /// `progress_receiver` receives the progress of the work.
    ///
    /// # Errors
    /// An exception of PHP code that ran during the wait, or the end of the request.
    pub fn run<T, E, F>(
        &self,
        hooks: Hooks<'_>,
        method: &str,
        progress_receiver: Option<&ProgressReceiver<'_>>,
        work: impl FnOnce(McpClient, &CallHandle) -> F,
    ) -> Result<Result<T, E>, Failure>
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
        let started = Instant::now();
        self.connect_for_authorization(hooks, &connection)?;
        let client = connection.client().clone();
        let waiting_client =
            WaitingClient::for_connection(self, hooks, Arc::clone(&connection), progress_receiver);
        // Boxed, because the future is large, and every step would copy it.
        let outcome = waiting_client.wait(|handle| Box::pin(work(client, handle)))?;
        drop(waiting_client);
        self.deliver_after_call(hooks, &connection)?;
        hooks.log(LogLevel::Debug, self.response_message, || {
            let error = outcome.as_ref().err().map(ToString::to_string);
            json!({
                "method": method,
                "transport": connection.client().transport().map(TransportKind::name),
                "duration_ms": started.elapsed().as_millis() as u64,
                "error": error,
            })
        })?;
        Ok(outcome)
    }

    /// Registers a call of this object with the connection's router.
    pub fn open_call(&self, connection: &McpConnection, jobs: JobSender<ServerJob>) -> CallHandle {
        connection.router().open_call(jobs, &self.inbox)
    }

    /// Returns whether the server responds at present.
    ///
    /// # Errors
    /// An exception of PHP code that ran during the wait.
    pub fn is_available(&self, hooks: Hooks<'_>) -> Result<bool, Failure> {
        let outcome = self.run(hooks, "ping", None, |client, _| async move {
            Ok::<_, McpError>(client.is_available().await)
        })?;
        Ok(outcome.unwrap_or_default())
    }

    /// Ends the session for all objects that share it. The next call of any of them opens another
    /// session.
    ///
    /// # Errors
    /// The failure that ends the wait, which takes at most one second.
    pub fn disconnect(&self) -> Result<(), Failure> {
        let connection = {
            let connection = self.connection.borrow();
            connection.as_ref().and_then(Bound::get).cloned()
        };
        // Even if this object has no connection, another object or an earlier request may have one.
        let client = match connection {
            Some(connection) => connection.client().clone(),
            None if self.server.oauth().is_some() => return Ok(()),
            None => match sessions::find(&self.key(None))? {
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
pub fn decode_message(json: &RawValue, empty: EmptyObject) -> Outcome {
    decode(json.get(), empty)?.map_err(|error| {
        exception::transport(format!(
            "MCP request failed: the answer cannot be read: {error}"
        ))
    })
}

/// Returns an argument as a JSON object. An omitted argument becomes `{}`.
///
/// # Errors
/// A `TypeError` if the argument is not an array; an `InvalidInputException` if JSON cannot
/// represent it.
pub fn arguments(call: &MethodCall<'_>, index: usize) -> Result<Box<RawValue>, Failure> {
    match call.optional_array(index)? {
        Some(arguments) => encode_arguments(arguments),
        None => encode_arguments(&empty_array()),
    }
}
