use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use pillion_schema::json_values;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;

use super::callbacks::Notification;
use super::close_signal::CloseSignal;
use super::message::{self, MirroredHeaders, RequestMetadata, RpcOutcome, RpcRequestId};
use super::on_drop::{OnDrop, run_in_background};
use super::peer::Peer;
use super::repeat::{RepeatSafety, is_first_break};
use super::session_loss::{SessionLoss, session_loss_of_error};
use super::transport::{SerializedRequest, Transport};
use super::{Feature, McpErrorKind, ProtocolVersion, RpcError};
use pillion_egress::MAX_REPEATS;

/// An open connection with its transport and the negotiated revision.
pub(super) struct Session {
    transport: Box<dyn Transport>,
    peer: Arc<Peer>,
    id_style: IdStyle,
    next_id: AtomicI64,
    version: Option<ProtocolVersion>,
    /// The `_meta` entries of every request in the session's revision, created on first use.
    shared_metadata: OnceLock<message::SharedMetadata>,
    handshake_result: Option<Box<RawValue>>,
    /// A signal that is set when the client closes the session.
    close_signal: CloseSignal,
    /// Whether the server no longer knows the session.
    is_lost: AtomicBool,
}

/// The form of request IDs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IdStyle {
    /// Numbers: `1`, `2`, ...
    Number,
    /// A random text: `mcp_` followed by random characters.
    RandomText,
}

/// Metadata of one request, in addition to its parameters.
#[derive(Default)]
pub(super) struct RequestExtras {
    /// Entries of `_meta`; entries in the request's parameters take precedence.
    pub(super) meta: Map<String, Value>,
    /// Headers that mirror parameters (`Mcp-Param-*`).
    pub(super) mirrored_headers: MirroredHeaders,
    /// The recipient of notifications, if the request is `subscriptions/listen`.
    pub(super) subscriber: Option<mpsc::Sender<Notification>>,
}

impl Session {
    pub(super) fn new(transport: Box<dyn Transport>, peer: Arc<Peer>, id_style: IdStyle) -> Self {
        Self {
            transport,
            peer,
            id_style,
            next_id: AtomicI64::new(1),
            version: None,
            shared_metadata: OnceLock::new(),
            handshake_result: None,
            close_signal: CloseSignal::default(),
            is_lost: AtomicBool::new(false),
        }
    }

    /// Returns the protocol revision of the session; `None` if no revision was negotiated.
    pub(super) fn version(&self) -> Option<ProtocolVersion> {
        self.version
    }

    /// Returns a description of the negotiated revision, for the steps of a connection attempt.
    pub(super) fn describe_version(&self) -> String {
        self.version.map_or_else(
            || "no handshake".to_owned(),
            |version| format!("revision {version}"),
        )
    }

    pub(super) fn has_feature(&self, feature: Feature) -> bool {
        self.version
            .is_some_and(|version| version.supports(feature))
    }

    /// Returns the server's own description: the result of `initialize` or `server/discover`.
    pub(super) fn handshake_result(&self) -> Option<&RawValue> {
        self.handshake_result.as_deref()
    }

    /// Sets the revision of a session that has no handshake.
    pub(super) fn set_version(&mut self, version: ProtocolVersion) {
        self.version = Some(version);
        self.shared_metadata = OnceLock::new();
        self.transport.set_version(version);
    }

    /// Resets the revision of the session, before a handshake negotiates another one.
    pub(super) fn clear_version(&mut self) {
        self.version = None;
    }

    pub(super) fn set_handshake_result(&mut self, handshake_result: Box<RawValue>) {
        self.handshake_result = Some(handshake_result);
    }

    /// Sends a request and waits for its response. Dropping the future, or closing the session,
    /// cancels the request on the server.
    pub(super) async fn exchange(
        self: &Arc<Self>,
        method: &str,
        params: &RawValue,
        extras: RequestExtras,
    ) -> Result<RpcOutcome, McpErrorKind> {
        let exchange = self.exchange_unconverted(method, params, extras);
        to_rpc_outcome(exchange.await)
    }

    /// Sends a request and returns the JSON-RPC response with the ID of the request. An HTTP error
    /// whose JSON-RPC error has another ID stays an [`McpErrorKind::HttpStatus`], because the
    /// server may not have processed the request. [`to_rpc_outcome`] converts such an error.
    pub(super) async fn exchange_unconverted(
        self: &Arc<Self>,
        method: &str,
        params: &RawValue,
        extras: RequestExtras,
    ) -> Result<RpcOutcome, McpErrorKind> {
        let subscriber = extras.subscriber.clone();
        let request = self.serialize_request(method, params, extras)?;
        let _route_guard =
            subscriber.map(|sender| self.peer.route_notifications(request.id.clone(), sender));
        let id = request.id.clone();
        let guard = OnDrop::new(|| self.cancel(&id));
        let messages_before = self.peer.message_count();
        let exchange = self.transport.exchange(request);
        let outcome = self.close_signal.run_until_closed(exchange).await?;
        guard.disarm();
        if let Some(error) = rpc_error(&outcome) {
            // The future of the check is boxed, because the check is rare and would enlarge the
            // future of every exchange.
            let session_check = Box::pin(self.detect_session_loss(method, error, messages_before));
            if self.close_signal.run_until_closed(session_check).await? {
                return Err(McpErrorKind::SessionExpired);
            }
        }
        check_value_count(method, outcome?)
    }

    /// Detects an error by which the server reports that it no longer knows the session, and marks
    /// the session as lost. Returns whether the request can be sent again in another session.
    /// `messages_before` is the number of messages from the server before the request.
    async fn detect_session_loss(
        &self,
        method: &str,
        error: &RpcError,
        messages_before: u64,
    ) -> bool {
        let session_loss = session_loss_of_error(error);
        if session_loss == SessionLoss::None || !self.has_feature(Feature::Handshake) {
            return false;
        }
        // The tool may have run if, after this call was sent, the server sent a notification (such
        // as progress) or a request to the client.
        let was_server_silent = self.peer.message_count() == messages_before;
        if self.transport.has_session().await != Some(false) {
            return false;
        }
        self.is_lost.store(true, Ordering::Release);
        let has_not_run = session_loss != SessionLoss::MayHaveRun && was_server_silent;
        has_not_run || RepeatSafety::for_method(method).is_harmless()
    }

    /// Sends a notification to the server on behalf of a caller.
    pub(super) async fn notify(&self, method: &str, params: &RawValue) -> Result<(), McpErrorKind> {
        let message = message::encode_notification(method, Some(params));
        let repeat_safety = RepeatSafety::for_method(method);
        let notify_operation = self.transport.notify(message, repeat_safety);
        self.close_signal.run_until_closed(notify_operation).await?
    }

    /// Sends a request that is part of opening the session, such as `initialize`:
    ///
    /// - The request is never cancelled.
    /// - HTTP error statuses are returned unchanged.
    /// - If the connection breaks, the request is sent again, because repeating it is harmless.
    pub(super) async fn send_opening_request(
        &self,
        method: &str,
        params: &RawValue,
    ) -> Result<RpcOutcome, McpErrorKind> {
        let mut repeat_count = 0;
        loop {
            let mut request = self.serialize_request(method, params, RequestExtras::default())?;
            request.opens_session = true;
            match self.transport.exchange(request).await {
                // The request is sent again if the connection broke before the response was
                // complete.
                Err(error)
                    if is_first_break(&error) && repeat_count < MAX_REPEATS && self.is_open() =>
                {
                    tracing::debug!(%error, method, "Sending an MCP request again");
                    repeat_count += 1;
                }
                outcome => return check_value_count(method, outcome?),
            }
        }
    }

    /// Serializes a request with a new ID, and with the metadata that the session's revision
    /// requires.
    fn serialize_request(
        &self,
        method: &str,
        params: &RawValue,
        extras: RequestExtras,
    ) -> Result<SerializedRequest, McpErrorKind> {
        let id = match (self.id_style, method) {
            // `server/discover` and `subscriptions/listen` need IDs that no other session uses. A
            // server that responds on a stream may respond late, on the stream of a later session.
            // A server may also use the ID of `subscriptions/listen` as the key for the
            // notification streams of all clients.
            (IdStyle::RandomText, _) | (_, "server/discover" | "subscriptions/listen") => {
                RpcRequestId::Text(format!("mcp_{}", uuid::Uuid::new_v4().simple()))
            }
            (IdStyle::Number, _) => {
                RpcRequestId::Number(self.next_id.fetch_add(1, Ordering::Relaxed))
            }
        };
        let stateless_version = self
            .version
            .filter(|version| version.supports(Feature::RequestMetadata));
        let mut mirrored_headers = MirroredHeaders::new();
        let message = if stateless_version.is_some() || !extras.meta.is_empty() {
            let to_error = McpErrorKind::UnserializableParams;
            let mut request = RequestMetadata::from_params(params).map_err(to_error)?;
            request.add(extras.meta).map_err(to_error)?;
            if let Some(version) = stateless_version {
                mirrored_headers = extras.mirrored_headers;
                request.add_shared(self.shared_metadata(version).map_err(to_error)?);
                request.add_mirrored_headers(method, &mut mirrored_headers);
            }
            message::encode_request(&id, method, &request)
        } else {
            message::encode_request(&id, method, params)
        };
        Ok(SerializedRequest {
            id,
            message,
            mirrored_headers,
            is_endless: extras.subscriber.is_some(),
            opens_session: false,
            repeat_safety: RepeatSafety::for_method(method),
        })
    }

    /// Returns the `_meta` entries of every request in the revision `version`.
    fn shared_metadata(
        &self,
        version: ProtocolVersion,
    ) -> Result<&message::SharedMetadata, serde_json::Error> {
        if let Some(shared_metadata) = self.shared_metadata.get() {
            return Ok(shared_metadata);
        }
        let capabilities = message::add_tasks_extension(self.peer.callbacks().capabilities());
        let shared_metadata = message::shared_metadata(version, capabilities)?;
        Ok(self.shared_metadata.get_or_init(|| shared_metadata))
    }

    /// Negotiates the session: sends `initialize`, then `notifications/initialized`.
    pub(super) async fn initialize(
        &mut self,
        requested_version: ProtocolVersion,
    ) -> Result<(), McpErrorKind> {
        /// Timeout for sending `notifications/initialized`, whose response is not needed.
        const INITIALIZED_TIMEOUT: Duration = Duration::from_secs(2);
        let mut capabilities = self.peer.callbacks().capabilities();
        if requested_version == ProtocolVersion::V2024_11_05 {
            // In revision 2024-11-05, the client also announces the capabilities `tools` and
            // `resources`, because clients of that revision announced both and servers may check
            // for them.
            for capability in ["tools", "resources"] {
                capabilities.insert(capability.to_owned(), json!({}));
            }
        }
        let params = json!({
            "protocolVersion": requested_version.as_str(),
            "capabilities": capabilities,
            "clientInfo": message::client_info(),
        });
        let raw_params = to_raw_value(&params).map_err(McpErrorKind::UnserializableParams)?;
        let request = self.send_opening_request("initialize", &raw_params);
        let result = request.await??;
        #[derive(serde::Deserialize)]
        struct InitializeResult {
            #[serde(rename = "protocolVersion", default)]
            protocol_version: Option<String>,
        }
        let initialize_result: InitializeResult =
            serde_json::from_str(result.get()).map_err(|source| {
                let method = "initialize";
                McpErrorKind::UnexpectedResult { method, source }
            })?;
        let server_version = initialize_result.protocol_version.as_deref();
        let find_closest = ProtocolVersion::closest_handshake_revision;
        self.set_version(server_version.map_or(requested_version, find_closest));
        self.set_handshake_result(result);
        let notification = message::encode_notification::<Value>("notifications/initialized", None);
        let notify_operation = self.transport.notify(notification, RepeatSafety::Harmless);
        match tokio::time::timeout(INITIALIZED_TIMEOUT, notify_operation).await {
            Ok(Ok(())) => {}
            // Some servers respond to `notifications/initialized` with an error but work anyway.
            Ok(Err(error)) => {
                tracing::debug!(%error, "Sending `notifications/initialized` failed");
            }
            Err(_) => {
                tracing::debug!("Sending `notifications/initialized` to the server timed out");
            }
        }
        if self.peer.needs_listening() {
            self.transport.listen().await;
        }
        Ok(())
    }

    /// Starts to receive messages outside of responses.
    pub(super) async fn listen(&self) {
        self.transport.listen().await;
    }

    pub(super) fn is_open(&self) -> bool {
        self.transport.is_open() && !self.is_lost.load(Ordering::Acquire)
    }

    /// Closes the session. Callers that wait for a response get an error.
    pub(super) async fn close(&self) {
        self.close_signal.set();
        self.transport.close().await;
    }

    /// Cancels a request on the server, after its caller has given up.
    fn cancel(self: &Arc<Self>, id: &RpcRequestId) {
        if !self.sends_cancelled_notification() {
            return;
        }
        let session = Arc::clone(self);
        let params =
            json!({"requestId": id, "reason": "The caller no longer waits for the response"});
        run_in_background(async move {
            let message = message::encode_notification("notifications/cancelled", Some(&params));
            if let Err(error) = session
                .transport
                .notify(message, RepeatSafety::Harmless)
                .await
            {
                tracing::debug!(%error, "Sending `notifications/cancelled` failed");
            }
        });
    }

    /// Returns whether cancelling a request requires a notification.
    fn sends_cancelled_notification(&self) -> bool {
        let server_notices_close =
            self.transport.closes_with_exchange() && self.has_feature(Feature::CancelByClosing);
        self.version.is_some() && !server_notices_close
    }
}

/// Returns the JSON-RPC error of an outcome, even if the error arrived with an HTTP status that
/// requests a credential.
fn rpc_error(outcome: &Result<RpcOutcome, McpErrorKind>) -> Option<&RpcError> {
    match outcome {
        Ok(Err(error)) => Some(error),
        Err(McpErrorKind::HttpStatus {
            status: 401 | 403,
            retry_after: None,
            challenge: None,
            rpc_error: Some(error),
        }) => Some(error),
        _ => None,
    }
}

/// Checks the number of JSON values of a result before the result is parsed. Lists are never parsed
/// whole: `ListReader` limits each of their entries.
fn check_value_count(method: &str, outcome: RpcOutcome) -> Result<RpcOutcome, McpErrorKind> {
    const LIST_METHODS: [&str; 4] = [
        "tools/list",
        "resources/list",
        "resources/templates/list",
        "prompts/list",
    ];
    if let Ok(result) = &outcome
        && !LIST_METHODS.contains(&method)
    {
        json_values::check(result.get().as_bytes())?;
    }
    Ok(outcome)
}

/// Converts an HTTP error that contains a JSON-RPC error into that error.
pub(super) fn to_rpc_outcome(
    outcome: Result<RpcOutcome, McpErrorKind>,
) -> Result<RpcOutcome, McpErrorKind> {
    match outcome {
        Err(McpErrorKind::HttpStatus {
            status,
            retry_after: None,
            rpc_error: Some(error),
            ..
        }) if !matches!(status, 401 | 403 | 407 | 429) => Ok(Err(*error)),
        outcome => outcome,
    }
}
