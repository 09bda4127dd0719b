use std::sync::{Arc, OnceLock};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use tokio::sync::Mutex;

use super::connect::{self, Dialect};
use super::http::HttpLink;
use super::jsonrpc::RpcOutcome;
use super::session::Session;
use super::{McpError, McpErrorKind, ServerConfig, TransportKind, Wording};

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
    config: ServerConfig,
    link: OnceLock<HttpLink>,
    state: Mutex<State>,
}

struct State {
    connection: Connection,
    dialect: Option<Dialect>,
}

enum Connection {
    /// Never connected, or lost: the next operation connects.
    None,
    Open(Arc<Session>),
    /// Disconnected on purpose: operations fail until `connect`.
    Closed,
}

impl McpClient {
    /// A client that has not connected yet.
    #[must_use]
    pub fn new(config: ServerConfig) -> Self {
        Self {
            shared: Arc::new(Shared {
                config,
                link: OnceLock::new(),
                state: Mutex::new(State {
                    connection: Connection::None,
                    dialect: None,
                }),
            }),
        }
    }

    /// The server that this is a client of.
    #[must_use]
    pub fn config(&self) -> &ServerConfig {
        &self.shared.config
    }

    /// Sends a request and gives the JSON-RPC result as the server wrote it (E10).
    ///
    /// A session that the server has forgotten is opened again, once. Nothing else is sent
    /// a second time.
    ///
    /// # Errors
    /// [`McpError`]; the whole operation, connecting included, takes no longer than the
    /// configured timeout.
    pub async fn request<P: Serialize + ?Sized>(
        &self,
        method: &str,
        params: &P,
    ) -> Result<Box<RawValue>, McpError> {
        let outcome = async {
            let params = as_object(params)?;
            self.within_timeout(self.exchange(method, &params)).await
        };
        outcome.await.map_err(|kind| self.error(kind))
    }

    /// The server's tools, each as the server wrote it, with every page fetched. A server
    /// that does not know `tools/list` has none (E6).
    ///
    /// # Errors
    /// [`McpError`].
    pub async fn list_tools(&self) -> Result<Vec<Box<RawValue>>, McpError> {
        self.within_timeout(self.all_tools())
            .await
            .map_err(|kind| self.error(kind))
    }

    /// Calls a tool and gives the JSON-RPC result as the server wrote it; a result with
    /// `isError` is a result. Empty arguments go out as `{}` (E11).
    ///
    /// # Errors
    /// [`McpError`].
    pub async fn call_tool<A: Serialize + ?Sized>(
        &self,
        name: &str,
        arguments: &A,
    ) -> Result<Box<RawValue>, McpError> {
        #[derive(Serialize)]
        struct Params<'a> {
            name: &'a str,
            arguments: &'a RawValue,
        }
        let arguments = as_object(arguments).map_err(|kind| self.error(kind))?;
        let arguments = &arguments;
        self.request("tools/call", &Params { name, arguments })
            .await
    }

    /// Whether the server answers: any JSON-RPC answer counts, an error too (E5).
    pub async fn is_available(&self) -> bool {
        match self.request("ping", &serde_json::json!({})).await {
            Ok(_) => true,
            Err(error) => error.rpc_error().is_some(),
        }
    }

    /// Connects now rather than at the first operation, or again after
    /// [`disconnect`](Self::disconnect).
    ///
    /// # Errors
    /// [`McpError`].
    pub async fn connect(&self) -> Result<(), McpError> {
        let connect = async {
            let mut state = self.shared.state.lock().await;
            if matches!(state.connection, Connection::Closed) {
                state.connection = Connection::None;
            }
            drop(state);
            self.session().await.map(drop)
        };
        self.within_timeout(connect)
            .await
            .map_err(|kind| self.error(kind))
    }

    /// Ends the session at the server, waiting for that no longer than a second. Later
    /// operations fail with `Not connected to server` until [`connect`](Self::connect).
    pub async fn disconnect(&self) {
        const PATIENCE: Duration = Duration::from_secs(1);
        let mut state = self.shared.state.lock().await;
        let connection = std::mem::replace(&mut state.connection, Connection::Closed);
        drop(state);
        if let Connection::Open(session) = connection {
            let _ = tokio::time::timeout(PATIENCE, session.close()).await;
        }
    }

    async fn within_timeout<T>(
        &self,
        operation: impl Future<Output = Result<T, McpErrorKind>>,
    ) -> Result<T, McpErrorKind> {
        let after = self.shared.config.timeout;
        let timed = tokio::time::timeout(after, operation).await;
        timed.unwrap_or(Err(McpErrorKind::Timeout { after }))
    }

    async fn exchange(
        &self,
        method: &str,
        params: &RawValue,
    ) -> Result<Box<RawValue>, McpErrorKind> {
        let url = self.shared.config.display_url();
        tracing::debug!(mcp.url = url, mcp.method = method, "MCP request");
        let outcome = self.exchange_once_or_again(method, params).await;
        tracing::debug!(
            mcp.url = url,
            mcp.method = method,
            success = matches!(outcome, Ok(Ok(_))),
            "MCP response"
        );
        Ok(outcome??)
    }

    async fn exchange_once_or_again(
        &self,
        method: &str,
        params: &RawValue,
    ) -> Result<RpcOutcome, McpErrorKind> {
        let session = self.session().await?;
        match session.exchange(method, params).await {
            // The server has not looked at the request: to send it again is safe.
            Err(McpErrorKind::SessionExpired) => {
                self.forget(&session).await;
                self.session().await?.exchange(method, params).await
            }
            other => other,
        }
    }

    /// The open session, or a new one. While one caller connects the others wait, each
    /// under its own deadline.
    async fn session(&self) -> Result<Arc<Session>, McpErrorKind> {
        let mut state = self.shared.state.lock().await;
        match &state.connection {
            Connection::Open(session) if session.is_open() => return Ok(Arc::clone(session)),
            Connection::Closed => return Err(McpErrorKind::Disconnected),
            Connection::Open(_) | Connection::None => {}
        }
        state.connection = Connection::None;
        let link = self.link()?;
        let known = state.dialect.take();
        let mut opened = connect::open(&self.shared.config, link, known).await;
        if opened.is_err() && known.is_some() && self.shared.config.transport == TransportKind::Auto
        {
            // What is remembered may not fit any more.
            opened = connect::open(&self.shared.config, link, None).await;
        }
        let (session, dialect) = opened?;
        let session = Arc::new(session);
        state.dialect = Some(dialect);
        state.connection = Connection::Open(Arc::clone(&session));
        Ok(session)
    }

    async fn forget(&self, expired: &Arc<Session>) {
        let mut state = self.shared.state.lock().await;
        if matches!(&state.connection, Connection::Open(current) if Arc::ptr_eq(current, expired)) {
            state.connection = Connection::None;
        }
    }

    fn link(&self) -> Result<&HttpLink, McpErrorKind> {
        if let Some(link) = self.shared.link.get() {
            return Ok(link);
        }
        let link = HttpLink::new(&self.shared.config)?;
        Ok(self.shared.link.get_or_init(|| link))
    }

    async fn all_tools(&self) -> Result<Vec<Box<RawValue>>, McpErrorKind> {
        #[derive(Deserialize)]
        struct Page {
            #[serde(default)]
            tools: Vec<Box<RawValue>>,
            #[serde(rename = "nextCursor", default)]
            next_cursor: Option<String>,
        }
        let method = "tools/list";
        let limit = self.shared.config.limits.max_pages;
        let mut tools = Vec::new();
        let mut cursor: Option<String> = None;
        for _ in 0..limit {
            let params = match &cursor {
                None => serde_json::json!({}),
                Some(cursor) => serde_json::json!({ "cursor": cursor }),
            };
            let result = match self.exchange(method, &as_object(&params)?).await {
                Err(McpErrorKind::Rpc(error)) if error.code == -32601 => return Ok(tools),
                other => other?,
            };
            let page: Page = serde_json::from_str(result.get())
                .map_err(|source| McpErrorKind::UnexpectedResult { method, source })?;
            tools.extend(page.tools);
            match page.next_cursor.filter(|next| !next.is_empty()) {
                Some(next) => cursor = Some(next),
                None => return Ok(tools),
            }
        }
        Err(McpErrorKind::TooManyPages { limit })
    }

    fn error(&self, kind: McpErrorKind) -> McpError {
        let config = &self.shared.config;
        let by_transport = match config.transport {
            TransportKind::LegacySse | TransportKind::PostSse | TransportKind::GetSse => {
                Wording::Sse
            }
            TransportKind::Auto | TransportKind::StreamableHttp | TransportKind::Http => {
                Wording::Http
            }
        };
        McpError::new(kind, config.wording.unwrap_or(by_transport))
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
