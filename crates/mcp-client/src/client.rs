mod circuit;
mod connection;
mod delivery;
mod false_alarms;
mod known_tools;
mod list_reader;
mod listing;
mod log_level;
mod operation;
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
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::callbacks::Callbacks;
use super::{
    AuthorizationResponse, Feature, McpError, McpErrorKind, PendingAuthorization, ProbeStep,
    ServerConfig, TransportKind,
};
use delivery::Delivery;
use list_reader::ListKind;
use operation::{as_object, in_time, request_name};
use request_sender::RequestSender;

pub use connection::{ConnectionInfo, OpenConnection};
pub use known_tools::ToolCallResult;
pub use log_level::McpLogLevel;
pub use options::RequestOptions;
pub use subscription::{Subscription, SubscriptionFilter};

/// Maximum timeout of an operation. A longer timeout is reduced to this one, because it could
/// overflow the clock.
const MAX_TIMEOUT: Duration = Duration::from_secs(24 * 3600);

/// The target of the warning that a tool result does not match the tool's output schema. A program
/// that reports [`ToolCallResult::output_mismatch`] itself can filter the warning out.
pub const OUTPUT_MISMATCH_TARGET: &str = "pillion_mcp_client::output_mismatch";

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
        // Pinned on the stack, because this future is large and would be copied otherwise.
        let operation = std::pin::pin!(async {
            let params = as_object(params)?;
            rounds::run(&self.sender, method, &params, options, &delivery).await
        });
        let name = || request_name(&self.sender, method, params);
        let outcome = in_time(&self.sender, options.timeout, name, operation).await;
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
        self.run_connecting(connect).await
    }

    /// Returns the transport, the protocol revision and the server's own description. Connects
    /// first if necessary.
    ///
    /// # Errors
    /// [`McpError`].
    pub async fn connection(&self) -> Result<ConnectionInfo, McpError> {
        self.run_connecting(self.sender.connections.info()).await
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
        in_time(&self.sender, None, name, finish).await
    }

    /// Allows operations to connect again after [`disconnect`](Self::disconnect), without
    /// connecting now as [`connect`](Self::connect) does.
    pub fn reopen(&self) {
        self.sender.connections.reopen();
    }

    /// Ends the backoff after failed connection attempts: lets the next operation connect at once.
    /// For callers that ask for the server's current state.
    pub fn end_pause(&self) {
        self.sender.connections.end_pause();
    }

    /// Calls a tool and returns the JSON-RPC result as the server wrote it, including results with
    /// `isError`. Empty arguments are sent as `{}`.
    ///
    /// # Errors
    /// The server is unreachable, too slow, or responds with an error. A result with `isError` is not
    /// an error.
    pub async fn call_tool<A: Serialize + ?Sized>(
        &self,
        name: &str,
        arguments: &A,
    ) -> Result<Box<RawValue>, McpError> {
        let options = RequestOptions::default();
        let called = self.call_tool_with(name, arguments, &options).await?;
        Ok(called.result)
    }

    /// Calls a tool like [`call_tool`](Self::call_tool), with options. Also returns why structured
    /// content does not match the tool's `outputSchema`, if the tool was listed before.
    ///
    /// # Errors
    /// The errors of [`call_tool`](Self::call_tool).
    pub async fn call_tool_with<A: Serialize + ?Sized>(
        &self,
        name: &str,
        arguments: &A,
        options: &RequestOptions,
    ) -> Result<ToolCallResult, McpError> {
        #[derive(Serialize)]
        struct Params<'a> {
            name: &'a str,
            arguments: &'a RawValue,
        }
        let object = as_object(arguments).map_err(|kind| operation::error(&self.sender, kind))?;
        let params = Params {
            name,
            arguments: &object,
        };
        self.call_tool_with_params(name, &params, options).await
    }

    /// Calls a tool like [`call_tool_with`](Self::call_tool_with), with all members of the
    /// request's parameters, for callers that forward a request. `params` must serialize to an
    /// object with the members `name`, which is `name`, and `arguments`, which is an object.
    ///
    /// # Errors
    /// The errors of [`call_tool`](Self::call_tool).
    pub async fn call_tool_with_params<P: Serialize + ?Sized>(
        &self,
        name: &str,
        params: &P,
        options: &RequestOptions,
    ) -> Result<ToolCallResult, McpError> {
        let time = options.timeout.unwrap_or(self.sender.config.timeout);
        let until = tokio::time::Instant::now() + time.min(MAX_TIMEOUT);
        let result = self.request_with("tools/call", params, options).await?;
        let tool = self.sender.tools.get(name);
        let output_mismatch = match tool.and_then(|tool| tool.output.clone()) {
            // Boxed, because the future of a schema check is large and seldom needed.
            Some(schema) => Box::pin(schema.mismatch(&result, until)).await,
            None => None,
        };
        if let Some(mismatch) = &output_mismatch {
            let server = &self.sender.config.label;
            tracing::warn!(
                target: OUTPUT_MISMATCH_TARGET,
                { mcp.server = server, tool = name, mismatch },
                "A tool result does not match the tool's output schema"
            );
        }
        Ok(ToolCallResult {
            result,
            output_mismatch,
        })
    }

    /// Sends a notification, which has no response.
    ///
    /// # Errors
    /// The server is unreachable, or the notification cannot be sent in time.
    pub async fn notify<P: Serialize + ?Sized>(
        &self,
        method: &str,
        params: &P,
    ) -> Result<(), McpError> {
        let notify = async {
            let params = as_object(params)?;
            let session = self.sender.connections.session().await?;
            session.notify(method, &params).await
        };
        self.run(method, notify).await
    }

    /// Reads a resource, and returns the `ReadResourceResult` as the server wrote it.
    ///
    /// # Errors
    /// [`McpError`]; with code `not_found` if there is no such resource, which servers report as
    /// -32002 or -32602.
    pub async fn read_resource(&self, uri: &str) -> Result<Box<RawValue>, McpError> {
        self.request("resources/read", &json!({ "uri": uri })).await
    }

    /// Requests a rendered prompt, and returns the `GetPromptResult` as the server wrote it. Arguments are
    /// strings.
    ///
    /// # Errors
    /// The server is unreachable, too slow, or responds with an error.
    pub async fn get_prompt<A: Serialize + ?Sized>(
        &self,
        name: &str,
        arguments: &A,
    ) -> Result<Box<RawValue>, McpError> {
        let arguments =
            as_object(arguments).map_err(|kind| operation::error(&self.sender, kind))?;
        let params = json!({"name": name, "arguments": arguments});
        self.request("prompts/get", &params).await
    }

    /// Requests completions for an argument of a prompt (`{"type": "ref/prompt", "name": ...}`) or
    /// of a resource template (`{"type": "ref/resource", "uri": ...}`), and returns the
    /// `CompleteResult` as the server wrote it.
    ///
    /// # Errors
    /// The server is unreachable, too slow, or responds with an error.
    pub async fn complete(
        &self,
        reference: &Value,
        argument: &str,
        value: &str,
    ) -> Result<Box<RawValue>, McpError> {
        let argument = json!({"name": argument, "value": value});
        let params = json!({"ref": reference, "argument": argument});
        self.request("completion/complete", &params).await
    }

    /// Requests the server's log messages of `level` and above, which arrive as
    /// `notifications/message`. Since revision 2026-07-28, every later request carries the level.
    ///
    /// # Errors
    /// The server is unreachable, too slow, or responds with an error.
    pub async fn set_log_level(&self, level: McpLogLevel) -> Result<(), McpError> {
        let set = async {
            self.sender.connections.settings.set_log_level(level);
            let session = self.sender.connections.session().await?;
            if session.has(Feature::Handshake) {
                let params = json!({ "level": level });
                self.send("logging/setLevel", &params).await?;
            }
            Ok(())
        };
        Box::pin(self.run("logging/setLevel", set)).await
    }

    /// Checks that the server responds, with `ping`, or since revision 2026-07-28 with
    /// `server/discover`.
    ///
    /// # Errors
    /// The server is unreachable, too slow, or responds with an error.
    pub async fn ping(&self) -> Result<(), McpError> {
        let ping = async {
            let session = self.sender.connections.session().await?;
            let is_stateless = session.has(Feature::RequestMetadata);
            let method = if is_stateless {
                "server/discover"
            } else {
                "ping"
            };
            self.send(method, &json!({})).await
        };
        Box::pin(self.run("ping", ping)).await
    }

    /// Returns the server's tools of all pages, each as the server wrote it. Empty if the server
    /// does not know `tools/list`.
    ///
    /// The number and the size of the entries of every list are limited: to 10,000 tools, resources
    /// or prompts, or 1,000 resource templates, to 1 MiB for each entry, and to 16 MiB together.
    /// Entries beyond a limit are dropped with a warning.
    ///
    /// A tool whose `x-mcp-header` annotations violate the rules of revision 2026-07-28 is skipped
    /// with a warning, as that revision requires.
    ///
    /// # Errors
    /// [`McpError`].
    pub async fn list_tools(&self) -> Result<Vec<Box<RawValue>>, McpError> {
        let list = Box::pin(listing::list_tools(&self.sender));
        self.run("tools/list", list).await
    }

    /// Returns the server's resources of all pages, each as the server wrote it.
    ///
    /// # Errors
    /// [`McpError`].
    pub async fn list_resources(&self) -> Result<Vec<Box<RawValue>>, McpError> {
        self.list(ListKind::RESOURCES).await
    }

    /// Returns the server's resource templates of all pages, each as the server wrote it.
    ///
    /// # Errors
    /// [`McpError`].
    pub async fn list_resource_templates(&self) -> Result<Vec<Box<RawValue>>, McpError> {
        self.list(ListKind::RESOURCE_TEMPLATES).await
    }

    /// Returns the server's prompts of all pages, each as the server wrote it.
    ///
    /// # Errors
    /// [`McpError`].
    pub async fn list_prompts(&self) -> Result<Vec<Box<RawValue>>, McpError> {
        self.list(ListKind::PROMPTS).await
    }

    /// Subscribes to notifications: since revision 2026-07-28 with `subscriptions/listen`; in older
    /// revisions with `resources/subscribe` and the notifications that the server pushes.
    ///
    /// # Errors
    /// [`McpError`] if the server rejects the subscription.
    pub async fn subscribe(&self, filter: SubscriptionFilter) -> Result<Subscription, McpError> {
        let server = &self.config().label;
        let name = || format!("the notification subscription at server '{server}'");
        let subscribe = subscription::subscribe(&self.sender, filter);
        in_time(&self.sender, None, name, subscribe).await
    }

    /// Runs an operation whose name in errors is its method.
    async fn run<T>(
        &self,
        method: &str,
        operation: impl Future<Output = Result<T, McpErrorKind>>,
    ) -> Result<T, McpError> {
        let name = || request_name(&self.sender, method, &());
        in_time(&self.sender, None, name, operation).await
    }

    /// Runs an operation whose name in errors is that of connecting.
    async fn run_connecting<T>(
        &self,
        operation: impl Future<Output = Result<T, McpErrorKind>>,
    ) -> Result<T, McpError> {
        let name = || format!("connecting to server '{}'", self.config().label);
        in_time(&self.sender, None, name, operation).await
    }

    /// Sends a request without options, and ignores the result.
    async fn send(&self, method: &str, params: &Value) -> Result<(), McpErrorKind> {
        let (params, options) = (rounds::raw(params)?, RequestOptions::default());
        let delivery = Delivery::default();
        let sent = rounds::run(&self.sender, method, &params, &options, &delivery);
        sent.await.map(drop)
    }

    async fn list(&self, kind: ListKind) -> Result<Vec<Box<RawValue>>, McpError> {
        let list = async {
            let (entries, _) = listing::all(&self.sender, kind).await?;
            Ok(entries)
        };
        self.run(kind.method, Box::pin(list)).await
    }
}

impl std::fmt::Debug for McpClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("McpClient")
            .field(&self.sender.config)
            .finish()
    }
}
