mod circuit;
mod confirmed;
mod connection;
mod exchange;
mod known_tools;
mod listing;
mod methods;
mod options;
mod output_schema;
mod result_type;
mod rounds;
mod standing;
mod subscription;
mod tasks;

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

use super::callbacks::Callbacks;
use super::peer::Peer;
use super::result_cache::ResultCache;
use super::{
    AuthorizationResponse, McpError, McpErrorKind, PendingAuthorization, ProbeStep, ServerConfig,
    TransportKind, Wording,
};
use connection::Connections;
use known_tools::KnownTools;

pub use connection::{ConnectionInfo, OpenConnection};
pub use known_tools::ToolCallResult;
pub use methods::LogLevel;
pub use options::RequestOptions;
pub use subscription::{Subscription, SubscriptionFilter};

/// A client of one MCP server, with one credential.
///
/// It is lazy (E9): making one does no I/O; the first operation connects, finds out how
/// the server wants to be spoken to and remembers it. Cheap to clone; clones share the
/// connection, and any number of calls may run on it at once. It must be used inside a
/// tokio runtime.
///
/// ```no_run
/// use pillion_core::mcp::{McpClient, ServerConfig};
/// use serde_json::json;
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = McpClient::new(ServerConfig::new("dice", "http://127.0.0.1:8000/sse")?);
/// let result = client.call_tool("roll", &json!({"dice": "1d20"})).await?;
/// println!("{}", result.get()); // the JSON-RPC result, byte for byte
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct McpClient {
    shared: Arc<Shared>,
}

struct Shared {
    config: Arc<ServerConfig>,
    /// Where the server is, for logs.
    display_url: String,
    peer: Arc<Peer>,
    connections: Connections,
    tools: KnownTools,
    results: Arc<ResultCache>,
}

impl McpClient {
    /// A client that has not connected yet, and that refuses every request of the server's.
    #[must_use]
    pub fn new(config: ServerConfig) -> Self {
        Self::with_callbacks(config, Callbacks::new())
    }

    /// A client that has not connected yet, with answers to what the server may ask.
    #[must_use]
    pub fn with_callbacks(config: ServerConfig, callbacks: Callbacks) -> Self {
        let config = Arc::new(config);
        let results = Arc::new(ResultCache::default());
        let peer = Arc::new(Peer::new(callbacks, Arc::clone(&results)));
        Self {
            shared: Arc::new(Shared {
                connections: Connections::new(Arc::clone(&config), Arc::clone(&peer)),
                display_url: config.display_url(),
                config,
                peer,
                tools: KnownTools::default(),
                results,
            }),
        }
    }

    /// The server that this is a client of.
    #[must_use]
    pub fn config(&self) -> &ServerConfig {
        &self.shared.config
    }

    /// Whether there are other clones of this client, such as that of an operation under
    /// way. For who keeps clients and gives up those that nobody uses.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        Arc::strong_count(&self.shared) > 1
    }

    /// Sends a request and gives the JSON-RPC result as the server wrote it (E10).
    ///
    /// A session that the server has forgotten is opened again, once. A request that only
    /// reads is sent a second time when its connection breaks; nothing else is.
    ///
    /// # Errors
    /// [`McpError`]; the whole operation, connecting included, takes no longer than the
    /// configured timeout.
    pub async fn request<P: Serialize + ?Sized>(
        &self,
        method: &str,
        params: &P,
    ) -> Result<Box<RawValue>, McpError> {
        self.request_with(method, params, &RequestOptions::default())
            .await
    }

    /// [`request`](Self::request), with a deadline of its own, progress, or `_meta`.
    ///
    /// # Errors
    /// [`McpError`].
    pub async fn request_with<P: Serialize + ?Sized>(
        &self,
        method: &str,
        params: &P,
        options: &RequestOptions,
    ) -> Result<Box<RawValue>, McpError> {
        // In its place once and for all: it is large, and would be copied at every step.
        let operation = std::pin::pin!(async {
            let params = as_object(params)?;
            self.run(method, &params, options).await
        });
        let name = || self.operation_name(method, params);
        self.in_time(options, name, operation).await
    }

    /// Whether the server answers: any JSON-RPC answer counts, an error too (E5).
    pub async fn is_available(&self) -> bool {
        match self.ping().await {
            Ok(()) => true,
            Err(error) => error.rpc_error().is_some(),
        }
    }

    /// Connects now rather than at the first operation, or again after
    /// [`disconnect`](Self::disconnect).
    ///
    /// # Errors
    /// [`McpError`].
    pub async fn connect(&self) -> Result<(), McpError> {
        self.shared.connections.reopen();
        let connect = async { self.shared.connections.session().await.map(drop) };
        self.in_time(&RequestOptions::default(), || self.connecting(), connect)
            .await
    }

    /// How the server is spoken to and what it said of itself; connects first if need be.
    ///
    /// # Errors
    /// [`McpError`].
    pub async fn connection(&self) -> Result<ConnectionInfo, McpError> {
        let connection = self.shared.connections.info();
        self.in_time(&RequestOptions::default(), || self.connecting(), connection)
            .await
    }

    /// Which connection is open now, if there is one, and the revision spoken on it. Cheap.
    #[must_use]
    pub fn open_connection(&self) -> Option<OpenConnection> {
        self.shared.connections.which_is_open()
    }

    /// Returns the transport, if it is configured or already detected. Does no I/O.
    #[must_use]
    pub fn transport(&self) -> Option<TransportKind> {
        self.shared.connections.transport()
    }

    /// What the last attempt to connect has tried so far, whatever came of it: where there is
    /// no connection, [`connection`](Self::connection) has no steps to tell of.
    #[must_use]
    pub fn connection_steps(&self) -> Vec<ProbeStep> {
        self.shared.connections.tried()
    }

    /// Ends the session at the server, waiting for that no longer than a second. Operations
    /// under way, connecting included, and later ones fail with `Not connected to server`
    /// until [`connect`](Self::connect).
    pub async fn disconnect(&self) {
        const PATIENCE: Duration = Duration::from_secs(1);
        let closing = self.shared.connections.close();
        let _ = tokio::time::timeout(PATIENCE, closing).await;
    }

    /// Takes up an authorization that another client has asked for, in this process or
    /// another (see [`PromptError::Deferred`](super::PromptError::Deferred)), now that the
    /// browser has come back: gets the tokens, and stores them.
    ///
    /// # Errors
    /// [`McpError`] of [`McpErrorKind::Authorization`] when the answer belongs to another
    /// request, says no, or the authorization server gives no token for it.
    pub async fn finish_authorization(
        &self,
        pending: PendingAuthorization,
        response: AuthorizationResponse,
    ) -> Result<(), McpError> {
        let connections = &self.shared.connections;
        let finish = Box::pin(connections.finish_authorization(pending, response));
        let name = || format!("the authorization at server '{}'", self.config().label);
        self.in_time(&RequestOptions::default(), name, finish).await
    }

    /// Lets operations connect again after [`disconnect`](Self::disconnect), without doing so
    /// now as [`connect`](Self::connect) does.
    pub fn reopen(&self) {
        self.shared.connections.reopen();
    }

    /// Lets the next operation try to connect even though the last attempts have failed; otherwise
    /// operations are refused until the backoff is over. For callers that ask for the server's
    /// current state.
    pub fn end_pause(&self) {
        self.shared.connections.end_pause();
    }

    /// Runs an operation under its deadline and adds the context of the operation to its error.
    /// `name` returns the operation's name for errors.
    async fn in_time<T>(
        &self,
        options: &RequestOptions,
        name: impl FnOnce() -> String,
        operation: impl Future<Output = Result<T, McpErrorKind>>,
    ) -> Result<T, McpError> {
        let after = options.timeout.unwrap_or(self.shared.config.timeout);
        let timed = tokio::time::timeout(after, operation).await;
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
        let config = &self.shared.config;
        let by_transport = match config.transport {
            TransportKind::LegacySse | TransportKind::PostSse | TransportKind::GetSse => {
                Wording::Sse
            }
            TransportKind::Auto
            | TransportKind::StreamableHttp
            | TransportKind::Http
            | TransportKind::WebSocket
            | TransportKind::Stdio => Wording::Http,
        };
        let wording = config.wording.unwrap_or(by_transport);
        McpError::new(kind, wording, self.transport())
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

/// Parameters and arguments are objects: PHP's empty array and null become `{}` (E11).
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
            .field(&self.shared.config)
            .finish()
    }
}
