mod circuit;
mod connection;
mod delivery;
mod false_alarms;
mod known_tools;
mod list_reader;
mod listing;
mod log_level;
mod methods;
mod options;
mod output_schema;
mod request_sender;
mod result_type;
mod rounds;
mod session_settings;
mod subscription;
mod tasks;

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

use super::callbacks::Callbacks;
use super::{
    AuthorizationResponse, McpError, McpErrorKind, MessageStyle, PendingAuthorization, ProbeStep,
    ServerConfig, TransportKind,
};
use delivery::Delivery;
use request_sender::RequestSender;

pub use connection::{ConnectionInfo, OpenConnection};
pub use known_tools::ToolCallResult;
pub use log_level::McpLogLevel;
pub use options::RequestOptions;
pub use subscription::{Subscription, SubscriptionFilter};

/// A client of one MCP server, with one credential.
///
/// The client is lazy: creating it does no I/O. The first operation connects, detects the server's
/// transport and protocol revision, and caches both. Cheap to clone; clones share the connection,
/// which can carry any number of concurrent calls. Requires a tokio runtime.
///
/// ```no_run
/// use pillion_mcp_client::{McpClient, ServerConfig};
/// use serde_json::json;
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = McpClient::new(ServerConfig::new("dice", "http://127.0.0.1:8000/sse")?);
/// let result = client.call_tool("roll", &json!({"dice": "1d20"})).await?;
/// println!("{}", result.get()); // the JSON-RPC result, byte for byte
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct McpClient {
    sender: Arc<RequestSender>,
}

impl McpClient {
    /// Creates a client without handlers for the server's requests. Does not connect.
    #[must_use]
    pub fn new(config: ServerConfig) -> Self {
        Self::with_callbacks(config, Callbacks::new())
    }

    /// Creates a client with handlers for the server's requests. Does not connect.
    #[must_use]
    pub fn with_callbacks(config: ServerConfig, callbacks: Callbacks) -> Self {
        Self {
            sender: Arc::new(RequestSender::new(config, callbacks)),
        }
    }

    /// Returns the configuration of the server.
    #[must_use]
    pub fn config(&self) -> &ServerConfig {
        &self.sender.config
    }

    /// Returns whether other clones of this client exist, such as that of a running operation. For
    /// client pools that drop unused clients.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        Arc::strong_count(&self.sender) > 1
    }

    /// Sends a request and returns the JSON-RPC result as the server wrote it.
    ///
    /// If the session has expired, opens a new session, once. If the server refuses connections, waits
    /// for a restart. If the connection breaks, only a request that is harmless to repeat is sent
    /// again.
    ///
    /// # Errors
    /// [`McpError`]. The configured timeout applies to the whole operation, including connecting.
    pub async fn request<P: Serialize + ?Sized>(
        &self,
        method: &str,
        params: &P,
    ) -> Result<Box<RawValue>, McpError> {
        self.request_with(method, params, &RequestOptions::default())
            .await
    }

    /// Sends a request like [`request`](Self::request), with a timeout, progress handler or
    /// `_meta`.
    ///
    /// # Errors
    /// [`McpError`].
    pub async fn request_with<P: Serialize + ?Sized>(
        &self,
        method: &str,
        params: &P,
        options: &RequestOptions,
    ) -> Result<Box<RawValue>, McpError> {
        let delivery = Delivery::default();
        // Pinned in place, because it is large and would be copied otherwise.
        let operation = std::pin::pin!(async {
            let params = as_object(params)?;
            rounds::run(&self.sender, method, &params, options, &delivery).await
        });
        let name = || self.operation_name(method, params);
        let outcome = self.in_time(options, name, operation).await;
        outcome.map_err(|error| match method {
            "tools/call" => error.with_may_have_run(delivery.is_unanswered()),
            _ => error,
        })
    }

    /// Returns whether the server responds. Any JSON-RPC response counts, including errors.
    pub async fn is_available(&self) -> bool {
        match self.ping().await {
            Ok(()) => true,
            Err(error) => error.rpc_error().is_some(),
        }
    }

    /// Connects now instead of with the first operation, or again after
    /// [`disconnect`](Self::disconnect).
    ///
    /// # Errors
    /// [`McpError`].
    pub async fn connect(&self) -> Result<(), McpError> {
        self.sender.connections.reopen();
        let connect = async { self.sender.connections.session().await.map(drop) };
        self.in_time(&RequestOptions::default(), || self.connecting(), connect)
            .await
    }

    /// Returns the transport, the protocol revision and the server's own description. Connects
    /// first if necessary.
    ///
    /// # Errors
    /// [`McpError`].
    pub async fn connection(&self) -> Result<ConnectionInfo, McpError> {
        let connection = self.sender.connections.info();
        self.in_time(&RequestOptions::default(), || self.connecting(), connection)
            .await
    }

    /// Returns the number and revision of the open connection, if any. Cheap.
    #[must_use]
    pub fn open_connection(&self) -> Option<OpenConnection> {
        self.sender.connections.open_connection()
    }

    /// Returns the transport, if it is configured or already detected. Does no I/O.
    #[must_use]
    pub fn transport(&self) -> Option<TransportKind> {
        self.sender.connections.transport()
    }

    /// Returns the steps of the last connection attempt, even if it failed. Without a connection,
    /// [`connection`](Self::connection) cannot return them.
    #[must_use]
    pub fn connection_steps(&self) -> Vec<ProbeStep> {
        self.sender.connections.tried()
    }

    /// Closes the session, waiting at most a second for the server. Running and later operations
    /// fail with `Not connected to server` until [`connect`](Self::connect) is called.
    pub async fn disconnect(&self) {
        const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
        let closing = self.sender.connections.close();
        let _ = tokio::time::timeout(CLOSE_TIMEOUT, closing).await;
    }

    /// Completes an authorization that another client started, in this process or another one (see
    /// [`PromptError::Deferred`](super::PromptError::Deferred)), with the response from the
    /// browser: requests the tokens and stores them.
    ///
    /// # Errors
    /// [`McpError`] of [`McpErrorKind::Authorization`] if the response belongs to another
    /// authorization request, is an error, or the authorization server issues no token.
    pub async fn finish_authorization(
        &self,
        pending: PendingAuthorization,
        response: AuthorizationResponse,
    ) -> Result<(), McpError> {
        let connections = &self.sender.connections;
        let finish = Box::pin(connections.finish_authorization(pending, response));
        let name = || format!("the authorization for server '{}'", self.config().label);
        self.in_time(&RequestOptions::default(), name, finish).await
    }

    /// Allows operations to connect again after [`disconnect`](Self::disconnect), without
    /// connecting now as [`connect`](Self::connect) does.
    pub fn reopen(&self) {
        self.sender.connections.reopen();
    }

    /// Lets the next operation try to connect even though the last attempts have failed; otherwise
    /// operations fail until the backoff has elapsed. For callers that ask for the server's current
    /// state.
    pub fn end_pause(&self) {
        self.sender.connections.end_pause();
    }

    /// Runs an operation under its deadline and adds the context of the operation to its error.
    /// `name` returns the operation's name for errors.
    async fn in_time<T>(
        &self,
        options: &RequestOptions,
        name: impl FnOnce() -> String,
        operation: impl Future<Output = Result<T, McpErrorKind>>,
    ) -> Result<T, McpError> {
        let after = options.timeout.unwrap_or(self.sender.config.timeout);
        let timed = pillion_deadline::timeout(after, operation).await;
        let outcome = timed.unwrap_or(Err(McpErrorKind::timeout(after)));
        outcome.map_err(|kind| {
            self.error(match kind {
                // A step of the operation, such as an attempt to connect, has only a part of the
                // time.
                McpErrorKind::Timeout { .. } => McpErrorKind::Timeout {
                    after,
                    operation: Some(name().into()),
                },
                kind => kind,
            })
        })
    }

    fn error(&self, kind: McpErrorKind) -> McpError {
        let config = &self.sender.config;
        let by_transport = match config.transport {
            TransportKind::LegacySse | TransportKind::PostSse | TransportKind::GetSse => {
                MessageStyle::Sse
            }
            TransportKind::Auto
            | TransportKind::StreamableHttp
            | TransportKind::Http
            | TransportKind::WebSocket
            | TransportKind::Stdio => MessageStyle::Http,
        };
        let style = config.message_style.unwrap_or(by_transport);
        let secrets = self.sender.connections.secrets();
        McpError::new(kind, style, self.transport(), secrets)
    }

    /// Returns the name of a request for errors: `tool 'roll' of server 'dice'`.
    fn operation_name<P: Serialize + ?Sized>(&self, method: &str, params: &P) -> String {
        const MAX_NAME_CHARS: usize = 128;
        let server = &self.config().label;
        let params = match method {
            "tools/call" => serde_json::to_value(params).unwrap_or_default(),
            _ => serde_json::Value::Null,
        };
        match params.get("name").and_then(serde_json::Value::as_str) {
            Some(tool) => {
                let tool: String = tool.chars().take(MAX_NAME_CHARS).collect();
                format!("tool '{tool}' of server '{server}'")
            }
            None => format!("'{method}' of server '{server}'"),
        }
    }

    fn connecting(&self) -> String {
        format!("connecting to server '{}'", self.config().label)
    }
}

/// Parameters and arguments must be objects: PHP's empty array and null become `{}`.
fn as_object<P: Serialize + ?Sized>(params: &P) -> Result<Box<RawValue>, McpErrorKind> {
    let raw = to_raw_value(params).map_err(McpErrorKind::Encode)?;
    if matches!(raw.get(), "[]" | "null") {
        return to_raw_value(&serde_json::Map::new()).map_err(McpErrorKind::Encode);
    }
    Ok(raw)
}

impl std::fmt::Debug for McpClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("McpClient")
            .field(&self.sender.config)
            .finish()
    }
}
