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
mod session_settings;
mod subscription;
mod tasks;

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::callbacks::Callbacks;
use super::oauth::find_authorization_servers;
use super::{
    AuthorizationResponse, Feature, McpError, McpErrorKind, PendingAuthorization, ProbeStep,
    ServerConfig, TransportKind,
};
use delivery::Delivery;
use list_reader::ListKind;
use operation::{as_object, format_request_name, run_in_time};
use request_sender::{RequestSender, send_request, to_raw};

pub use connection::{ConnectionInfo, OpenConnection};
pub use known_tools::ToolCallResult;
pub use log_level::McpLogLevel;
pub use options::RequestOptions;
pub use subscription::{Subscription, SubscriptionFilter};

/// Maximum timeout of an operation. A longer timeout is reduced to this maximum, because a deadline
/// that far in the future could overflow.
const MAX_TIMEOUT: Duration = Duration::from_secs(24 * 3600);

/// The `tracing` target of the warning that a tool result does not match the tool's output schema.
/// A program that reports [`ToolCallResult::output_mismatch`] itself can filter the warning out.
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
        let sender = Arc::new(RequestSender::new(config, callbacks));
        Self { sender }
    }

    /// Returns the configuration of the server.
    #[must_use]
    pub fn config(&self) -> &ServerConfig {
        &self.sender.config
    }

    /// Returns whether other clones of this client exist, for example in a running operation. A
    /// client pool can thus drop unused clients.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        Arc::strong_count(&self.sender) > 1
    }

    /// Sends a request and returns the JSON-RPC result as the server wrote it.
    ///
    /// If the session has expired, opens a new session and sends the request again, but only once.
    /// If the server refuses connections, waits for the server to restart. If the connection
    /// breaks, only a request that is harmless to repeat is sent again.
    ///
    /// # Errors
    /// [`McpError`] if the server is unreachable, too slow, or responds with an error. The
    /// configured timeout applies to the whole operation, including connecting.
    pub async fn request<P: Serialize + ?Sized>(
        &self,
        method: &str,
        params: &P,
    ) -> Result<Box<RawValue>, McpError> {
        self.request_with_options(method, params, &RequestOptions::default())
            .await
    }

    /// Sends a request like [`request`](Self::request), with a timeout, progress handler or
    /// `_meta`.
    ///
    /// # Errors
    /// [`McpError`] if the server is unreachable, too slow, or responds with an error.
    pub async fn request_with_options<P: Serialize + ?Sized>(
        &self,
        method: &str,
        params: &P,
        options: &RequestOptions,
    ) -> Result<Box<RawValue>, McpError> {
        let delivery = Delivery::default();
        // The future is pinned on the stack, because it is large and would otherwise be copied.
        let operation = std::pin::pin!(async {
            let params = as_object(params)?;
            send_request(&self.sender, method, &params, options, &delivery).await
        });
        let name = || format_request_name(&self.sender, method, params);
        let outcome = run_in_time(&self.sender, options.timeout, name, operation).await;
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
    /// [`McpError`] if the server is unreachable, too slow, or responds with an error.
    pub async fn connect(&self) -> Result<(), McpError> {
        self.sender.connections.reopen();
        let connect_operation = async { self.sender.connections.session().await.map(drop) };
        self.run_connecting(connect_operation).await
    }

    /// Returns the transport, the protocol revision and the server's own description. Connects
    /// first if necessary.
    ///
    /// # Errors
    /// [`McpError`] if the server is unreachable, too slow, or responds with an error.
    pub async fn connection(&self) -> Result<ConnectionInfo, McpError> {
        self.run_connecting(self.sender.connections.connection_info())
            .await
    }

    /// Returns the sequence number and the protocol revision of the open connection; `None` if no
    /// connection is open. Does no I/O.
    #[must_use]
    pub fn open_connection(&self) -> Option<OpenConnection> {
        self.sender.connections.open_connection()
    }

    /// Returns the transport; `None` if the transport is neither configured nor detected yet. Does
    /// no I/O.
    #[must_use]
    pub fn transport(&self) -> Option<TransportKind> {
        self.sender.connections.transport()
    }

    /// Returns the steps of the last connection attempt, even if the attempt failed.
    /// [`connection`](Self::connection) returns the steps only if there is a connection.
    #[must_use]
    pub fn connection_steps(&self) -> Vec<ProbeStep> {
        self.sender.connections.attempt_steps()
    }

    /// Replaces the credentials of this client in `text`, a text from the server, by `[redacted]`.
    pub fn redact(&self, text: &mut String) {
        self.sender.connections.secrets.redact(text);
    }

    /// Fetches the server's protected resource metadata (RFC 9728) without a credential. Returns
    /// the issuers of the authorization servers that the metadata names; empty if the server
    /// publishes no such metadata. `challenge` is the header `WWW-Authenticate` of a response of
    /// the server, which may contain the URL of the metadata.
    ///
    /// # Errors
    /// [`McpError`] if the metadata cannot be fetched, or describes another resource.
    pub async fn authorization_servers(
        &self,
        challenge: Option<&str>,
    ) -> Result<Vec<String>, McpError> {
        let secrets = &self.sender.connections.secrets;
        let fetch = Box::pin(find_authorization_servers(
            self.config(),
            secrets,
            challenge,
        ));
        let name = || {
            format!(
                "the authorization metadata of server '{}'",
                self.config().label
            )
        };
        run_in_time(&self.sender, None, name, fetch).await
    }

    /// Closes the session, waiting at most a second for the server. Running and later operations
    /// fail with `Not connected to server` until [`connect`](Self::connect) or
    /// [`reopen`](Self::reopen) is called.
    pub async fn disconnect(&self) {
        const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
        let close_operation = self.sender.connections.close();
        let _ = tokio::time::timeout(CLOSE_TIMEOUT, close_operation).await;
    }

    /// Completes an authorization that another client started, in this process or another one (see
    /// [`PromptError::Deferred`](super::PromptError::Deferred)). Requests the tokens with the
    /// authorization response from the browser, and stores them.
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
        let finish_operation = Box::pin(connections.finish_authorization(pending, response));
        let name = || format!("the authorization for server '{}'", self.config().label);
        run_in_time(&self.sender, None, name, finish_operation).await
    }

    /// Allows operations to connect again after [`disconnect`](Self::disconnect), without
    /// connecting now as [`connect`](Self::connect) does.
    pub fn reopen(&self) {
        self.sender.connections.reopen();
    }

    /// Ends the backoff after failed connection attempts, so that the next operation connects at
    /// once. Useful for callers that request the server's current state.
    pub fn end_backoff(&self) {
        self.sender.connections.end_backoff();
    }

    /// Calls a tool and returns the JSON-RPC result as the server wrote it, including results with
    /// `isError`. Empty arguments are sent as `{}`.
    ///
    /// # Errors
    /// The server is unreachable, too slow, or responds with an error. A result with `isError` is
    /// not an error.
    pub async fn call_tool<A: Serialize + ?Sized>(
        &self,
        name: &str,
        arguments: &A,
    ) -> Result<Box<RawValue>, McpError> {
        let options = RequestOptions::default();
        let call_operation = self.call_tool_with_options(name, arguments, &options);
        Ok(call_operation.await?.result)
    }

    /// Calls a tool like [`call_tool`](Self::call_tool), with options. Also returns why structured
    /// content does not match the tool's `outputSchema`, if the tool was listed before.
    ///
    /// # Errors
    /// The same errors as [`call_tool`](Self::call_tool).
    pub async fn call_tool_with_options<A: Serialize + ?Sized>(
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
        let arguments_object = as_object(arguments)
            .map_err(|kind| operation::error_of_operation(&self.sender, kind))?;
        let params = Params {
            name,
            arguments: &arguments_object,
        };
        self.call_tool_with_params(name, &params, options).await
    }

    /// Calls a tool like [`call_tool_with_options`](Self::call_tool_with_options), with all members
    /// of the request's parameters, for callers that forward a request. `params` must serialize to
    /// an object with a member `name` that equals the argument `name`, and a member `arguments`
    /// that is an object.
    ///
    /// # Errors
    /// The same errors as [`call_tool`](Self::call_tool).
    pub async fn call_tool_with_params<P: Serialize + ?Sized>(
        &self,
        name: &str,
        params: &P,
        options: &RequestOptions,
    ) -> Result<ToolCallResult, McpError> {
        let timeout = options.timeout.unwrap_or(self.sender.config.timeout);
        let deadline = tokio::time::Instant::now() + timeout.min(MAX_TIMEOUT);
        let result = self
            .request_with_options("tools/call", params, options)
            .await?;
        let tool = self.sender.tools.get(name);
        let output_mismatch = match tool.and_then(|tool| tool.output_schema.clone()) {
            // The future of the schema check is boxed, because it is large and seldom needed.
            Some(schema) => Box::pin(schema.find_mismatch(&result, deadline)).await,
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
        let notify_operation = async {
            let params = as_object(params)?;
            let session = self.sender.connections.session().await?;
            session.notify(method, &params).await
        };
        self.run_operation(method, notify_operation).await
    }

    /// Reads a resource, and returns the `ReadResourceResult` as the server wrote it.
    ///
    /// # Errors
    /// [`McpError`] if the server is unreachable, too slow, or responds with an error. If there is
    /// no such resource, servers respond with the JSON-RPC error -32002 or -32602.
    pub async fn read_resource(&self, uri: &str) -> Result<Box<RawValue>, McpError> {
        self.request("resources/read", &json!({ "uri": uri })).await
    }

    /// Requests a rendered prompt, and returns the `GetPromptResult` as the server wrote it. The
    /// values of `arguments` must be strings.
    ///
    /// # Errors
    /// The server is unreachable, too slow, or responds with an error.
    pub async fn get_prompt<A: Serialize + ?Sized>(
        &self,
        name: &str,
        arguments: &A,
    ) -> Result<Box<RawValue>, McpError> {
        let arguments_object = as_object(arguments)
            .map_err(|kind| operation::error_of_operation(&self.sender, kind))?;
        let params = json!({"name": name, "arguments": arguments_object});
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
        let operation = async {
            self.sender.connections.settings.set_log_level(level);
            let session = self.sender.connections.session().await?;
            if session.has_feature(Feature::Handshake) {
                let params = json!({ "level": level });
                self.send("logging/setLevel", &params).await?;
            }
            Ok(())
        };
        Box::pin(self.run_operation("logging/setLevel", operation)).await
    }

    /// Checks that the server responds, with `ping`, or since revision 2026-07-28 with
    /// `server/discover`.
    ///
    /// # Errors
    /// The server is unreachable, too slow, or responds with an error.
    pub async fn ping(&self) -> Result<(), McpError> {
        let ping_operation = async {
            let session = self.sender.connections.session().await?;
            let is_stateless = session.has_feature(Feature::RequestMetadata);
            let method = if is_stateless {
                "server/discover"
            } else {
                "ping"
            };
            self.send(method, &json!({})).await
        };
        Box::pin(self.run_operation("ping", ping_operation)).await
    }

    /// Returns the server's tools of all pages, each as the server wrote it. Empty if the server
    /// does not know `tools/list`.
    ///
    /// A list has at most 10,000 tools, resources or prompts, or at most 1,000 resource templates.
    /// An entry has at most 1 MiB, and all entries of a list together at most 16 MiB. Entries that
    /// exceed a limit are dropped with a warning.
    ///
    /// A tool whose `x-mcp-header` annotations violate the rules of revision 2026-07-28 is skipped
    /// with a warning, as that revision requires.
    ///
    /// # Errors
    /// [`McpError`] if the server is unreachable, too slow, or responds with an error.
    pub async fn list_tools(&self) -> Result<Vec<Box<RawValue>>, McpError> {
        let list_operation = Box::pin(self.sender.list_tools());
        self.run_operation("tools/list", list_operation).await
    }

    /// Returns the server's resources of all pages, each as the server wrote it.
    ///
    /// # Errors
    /// [`McpError`] if the server is unreachable, too slow, or responds with an error.
    pub async fn list_resources(&self) -> Result<Vec<Box<RawValue>>, McpError> {
        self.list(ListKind::RESOURCES).await
    }

    /// Returns the server's resource templates of all pages, each as the server wrote it.
    ///
    /// # Errors
    /// [`McpError`] if the server is unreachable, too slow, or responds with an error.
    pub async fn list_resource_templates(&self) -> Result<Vec<Box<RawValue>>, McpError> {
        self.list(ListKind::RESOURCE_TEMPLATES).await
    }

    /// Returns the server's prompts of all pages, each as the server wrote it.
    ///
    /// # Errors
    /// [`McpError`] if the server is unreachable, too slow, or responds with an error.
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
        let subscribe_operation = subscription::subscribe(&self.sender, filter);
        run_in_time(&self.sender, None, name, subscribe_operation).await
    }

    /// Runs an operation. Error messages name the operation by `method`.
    async fn run_operation<T>(
        &self,
        method: &str,
        operation: impl Future<Output = Result<T, McpErrorKind>>,
    ) -> Result<T, McpError> {
        let name = || format_request_name(&self.sender, method, &());
        run_in_time(&self.sender, None, name, operation).await
    }

    /// Runs an operation that only connects to the server. Errors name the operation `connecting to
    /// server '...'`.
    async fn run_connecting<T>(
        &self,
        operation: impl Future<Output = Result<T, McpErrorKind>>,
    ) -> Result<T, McpError> {
        let name = || format!("connecting to server '{}'", self.config().label);
        run_in_time(&self.sender, None, name, operation).await
    }

    /// Sends a request without options, and ignores the result.
    async fn send(&self, method: &str, params: &Value) -> Result<(), McpErrorKind> {
        let (params, options) = (to_raw(params)?, RequestOptions::default());
        let delivery = Delivery::default();
        let request_operation = send_request(&self.sender, method, &params, &options, &delivery);
        request_operation.await.map(drop)
    }

    /// Returns the entries of all pages of a list.
    async fn list(&self, kind: ListKind) -> Result<Vec<Box<RawValue>>, McpError> {
        let list_operation = Box::pin(async { Ok(self.sender.read_list(kind).await?.0) });
        self.run_operation(kind.method, list_operation).await
    }
}

impl std::fmt::Debug for McpClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("McpClient")
            .field(&self.sender.config)
            .finish()
    }
}
