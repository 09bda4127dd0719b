use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use pillion_schema::json_values;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;

use super::callbacks::Notification;
use super::close_signal::CloseSignal;
use super::jsonrpc::{self, RpcOutcome, RpcRequestId};
use super::metadata::{self, Metadata, MirroredHeaders};
use super::on_drop::{OnDrop, run_in_background};
use super::peer::Peer;
use super::repeat::{Repeat, is_first_break};
use super::session_loss::{SessionLoss, session_loss_of_error};
use super::transport::{SerializedRequest, Transport};
use super::{Feature, McpErrorKind, ProtocolVersion, RpcError};
use pillion_egress::MAX_REPEATS;

/// An open connection: its transport, and what was negotiated.
pub(super) struct Session {
    transport: Box<dyn Transport>,
    peer: Arc<Peer>,
    ids: IdStyle,
    next_id: AtomicI64,
    version: Option<ProtocolVersion>,
    /// The `_meta` entries of every request in the session's revision, created on first use.
    per_request: OnceLock<metadata::Shared>,
    handshake_result: Option<Box<RawValue>>,
    /// A signal that is set when the client closes the session.
    ended: CloseSignal,
    /// Whether the server no longer knows the session.
    is_lost: AtomicBool,
}

/// The form of request ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IdStyle {
    /// Numbers: `1`, `2`, ...
    Number,
    /// Texts: `mcp_` followed by random characters.
    Mcp,
}

/// Metadata of one request, in addition to its parameters.
#[derive(Default)]
pub(super) struct RequestExtras {
    /// Entries of `_meta`; entries in the request's parameters take precedence.
    pub(super) meta: Map<String, Value>,
    /// Headers that mirror parameters (`Mcp-Param-*`).
    pub(super) mirrored: MirroredHeaders,
    /// The recipient of notifications, if the request is `subscriptions/listen`.
    pub(super) subscriber: Option<mpsc::Sender<Notification>>,
}

impl Session {
    pub(super) fn new(transport: Box<dyn Transport>, peer: Arc<Peer>, ids: IdStyle) -> Self {
        Self {
            transport,
            peer,
            ids,
            next_id: AtomicI64::new(1),
            version: None,
            per_request: OnceLock::new(),
            handshake_result: None,
            ended: CloseSignal::default(),
            is_lost: AtomicBool::new(false),
        }
    }

    /// Returns the protocol revision in use; `None` if none was negotiated.
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

    pub(super) fn has(&self, feature: Feature) -> bool {
        self.version
            .is_some_and(|version| version.supports(feature))
    }

    /// Returns the server's own description: the result of `initialize` or `server/discover`.
    pub(super) fn handshake_result(&self) -> Option<&RawValue> {
        self.handshake_result.as_deref()
    }

    /// Sets a revision without handshake.
    pub(super) fn set_version(&mut self, version: ProtocolVersion) {
        self.version = Some(version);
        self.per_request = OnceLock::new();
        self.transport.negotiated(version);
    }

    /// Resets the revision, before a handshake negotiates one.
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
        rpc_outcome(exchange.await)
    }

    /// Sends a request and returns the JSON-RPC response with the id of the request. A JSON-RPC
    /// error with another id stays an [`McpErrorKind::HttpStatus`], because the server may not have
    /// processed the request; [`rpc_outcome`] converts such an error.
    pub(super) async fn exchange_unconverted(
        self: &Arc<Self>,
        method: &str,
        params: &RawValue,
        extras: RequestExtras,
    ) -> Result<RpcOutcome, McpErrorKind> {
        let subscriber = extras.subscriber.clone();
        let request = self.outgoing(method, params, extras)?;
        let _routed = subscriber.map(|sender| self.peer.route(request.id.clone(), sender));
        let id = request.id.clone();
        let guard = OnDrop::new(|| self.cancel(&id));
        let messages_before = self.peer.message_count();
        let exchange = self.transport.exchange(request);
        let outcome = self.ended.run_until_closed(exchange).await?;
        guard.disarm();
        if let Some(error) = rpc_error(&outcome) {
            // Boxed, because this check is rare and would enlarge the future of every exchange.
            let rejected = Box::pin(self.was_rejected(method, error, messages_before));
            if self.ended.run_until_closed(rejected).await? {
                return Err(McpErrorKind::SessionExpired);
            }
        }
        check_values(method, outcome?)
    }

    /// Returns whether the server rejected a request because it no longer knows the session, so
    /// that the request may be sent again in another session. `messages_before`: the number of
    /// messages from the server before the request.
    async fn was_rejected(&self, method: &str, error: &RpcError, messages_before: u64) -> bool {
        let loss = session_loss_of_error(error);
        if loss == SessionLoss::None || !self.has(Feature::Handshake) {
            return false;
        }
        // If the server sent progress or a request meanwhile, the tool may have run.
        let is_silent = self.peer.message_count() == messages_before;
        if self.transport.has_session().await != Some(false) {
            return false;
        }
        self.is_lost.store(true, Ordering::Release);
        let has_not_run = loss != SessionLoss::MayHaveRun && is_silent;
        has_not_run || Repeat::for_method(method).is_harmless()
    }

    /// Sends a notification of the caller.
    pub(super) async fn notify(&self, method: &str, params: &RawValue) -> Result<(), McpErrorKind> {
        let message = jsonrpc::notification(method, Some(params));
        let sent = self.transport.notify(message, Repeat::for_method(method));
        self.ended.run_until_closed(sent).await?
    }

    /// Sends a request that is part of opening the session. Such a request is never cancelled, HTTP
    /// error statuses are returned unchanged, and the request is sent again if its connection
    /// breaks, because a second one is harmless.
    pub(super) async fn ask(
        &self,
        method: &str,
        params: &RawValue,
    ) -> Result<RpcOutcome, McpErrorKind> {
        let mut repeats = 0;
        loop {
            let mut request = self.outgoing(method, params, RequestExtras::default())?;
            request.opens = true;
            match self.transport.exchange(request).await {
                // The connection broke before the response was complete.
                Err(error) if is_first_break(&error) && repeats < MAX_REPEATS && self.is_open() => {
                    tracing::debug!(%error, method, "Sending the request again");
                    repeats += 1;
                }
                outcome => return check_values(method, outcome?),
            }
        }
    }

    fn outgoing(
        &self,
        method: &str,
        params: &RawValue,
        extras: RequestExtras,
    ) -> Result<SerializedRequest, McpErrorKind> {
        let id = match (self.ids, method) {
            // These requests need ids that no other session uses: a server that responds on a
            // stream may respond late, on the stream of a later session, and a server may use the
            // id as the key for the notification streams of all clients.
            (IdStyle::Mcp, _) | (_, "server/discover" | "subscriptions/listen") => {
                RpcRequestId::Text(format!("mcp_{}", uuid::Uuid::new_v4().simple()))
            }
            (IdStyle::Number, _) => {
                RpcRequestId::Number(self.next_id.fetch_add(1, Ordering::Relaxed))
            }
        };
        let stateless = self
            .version
            .filter(|version| version.supports(Feature::RequestMetadata));
        let mut mirrored = MirroredHeaders::new();
        let message = if stateless.is_some() || !extras.meta.is_empty() {
            let mut request = Metadata::from_params(params).map_err(McpErrorKind::Encode)?;
            request.add(extras.meta).map_err(McpErrorKind::Encode)?;
            if let Some(version) = stateless {
                mirrored = extras.mirrored;
                request.share(self.per_request(version).map_err(McpErrorKind::Encode)?);
                request.mirror(method, &mut mirrored);
            }
            jsonrpc::request(&id, method, &request)
        } else {
            jsonrpc::request(&id, method, params)
        };
        Ok(SerializedRequest {
            id,
            message,
            mirrored,
            endless: extras.subscriber.is_some(),
            opens: false,
            repeat: Repeat::for_method(method),
        })
    }

    fn per_request(
        &self,
        version: ProtocolVersion,
    ) -> Result<&metadata::Shared, serde_json::Error> {
        if let Some(shared) = self.per_request.get() {
            return Ok(shared);
        }
        let capabilities = metadata::with_tasks(self.peer.callbacks().capabilities());
        let shared = metadata::per_request(version, capabilities)?;
        Ok(self.per_request.get_or_init(|| shared))
    }

    /// Negotiates the session: sends `initialize`, then `notifications/initialized`.
    pub(super) async fn initialize(
        &mut self,
        offered: ProtocolVersion,
    ) -> Result<(), McpErrorKind> {
        /// Timeout for sending `notifications/initialized`, whose response is not needed.
        const INITIALIZED_TIMEOUT: Duration = Duration::from_secs(2);
        let mut capabilities = self.peer.callbacks().capabilities();
        if offered == ProtocolVersion::V2024_11_05 {
            // Clients of revision 2024-11-05 announced these capabilities, and servers may check
            // for them.
            for known in ["tools", "resources"] {
                capabilities.insert(known.to_owned(), json!({}));
            }
        }
        let params = json!({
            "protocolVersion": offered.as_str(),
            "capabilities": capabilities,
            "clientInfo": metadata::client_info(),
        });
        let params = to_raw_value(&params).map_err(McpErrorKind::Encode)?;
        let result = self.ask("initialize", &params).await??;
        #[derive(serde::Deserialize)]
        struct Initialized {
            #[serde(rename = "protocolVersion", default)]
            protocol_version: Option<String>,
        }
        let initialized: Initialized = serde_json::from_str(result.get()).map_err(|source| {
            let method = "initialize";
            McpErrorKind::UnexpectedResult { method, source }
        })?;
        let spoken = initialized.protocol_version.as_deref();
        self.set_version(spoken.map_or(offered, ProtocolVersion::closest_handshake_revision));
        self.set_handshake_result(result);
        let done = jsonrpc::notification::<Value>("notifications/initialized", None);
        let notified = self.transport.notify(done, Repeat::Harmless);
        match tokio::time::timeout(INITIALIZED_TIMEOUT, notified).await {
            Ok(Ok(())) => {}
            // Some servers respond to `notifications/initialized` with an error but work anyway.
            Ok(Err(error)) => {
                tracing::debug!(%error, "The server rejected `notifications/initialized`");
            }
            Err(_) => {
                tracing::debug!("Sending `notifications/initialized` to the server timed out");
            }
        }
        if self.peer.listens() {
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
        self.ended.set();
        self.transport.close().await;
    }

    /// Cancels a request on the server, after its caller has given up.
    fn cancel(self: &Arc<Self>, id: &RpcRequestId) {
        if !self.sends_cancelled_notification() {
            return;
        }
        let session = Arc::clone(self);
        let params = json!({"requestId": id, "reason": "The caller gave up"});
        run_in_background(async move {
            let message = jsonrpc::notification("notifications/cancelled", Some(&params));
            if let Err(error) = session.transport.notify(message, Repeat::Harmless).await {
                tracing::debug!(%error, "The server rejected `notifications/cancelled`");
            }
        });
    }

    /// Returns whether cancelling a request requires a notification.
    fn sends_cancelled_notification(&self) -> bool {
        let seen = self.transport.closes_with_exchange() && self.has(Feature::CancelByClosing);
        self.version.is_some() && !seen
    }
}

/// Returns the JSON-RPC error of an outcome, also if it arrived with an HTTP status that requests a
/// credential.
fn rpc_error(outcome: &Result<RpcOutcome, McpErrorKind>) -> Option<&RpcError> {
    match outcome {
        Ok(Err(error)) => Some(error),
        Err(McpErrorKind::HttpStatus {
            status: 401 | 403,
            retry_after: None,
            challenge: None,
            rpc: Some(error),
        }) => Some(error),
        _ => None,
    }
}

/// Checks the number of JSON values of a result before the result is parsed. Lists are never parsed
/// whole: `ListReader` limits each of their entries.
fn check_values(method: &str, outcome: RpcOutcome) -> Result<RpcOutcome, McpErrorKind> {
    const LISTS: [&str; 4] = [
        "tools/list",
        "resources/list",
        "resources/templates/list",
        "prompts/list",
    ];
    if let Ok(result) = &outcome
        && !LISTS.contains(&method)
    {
        json_values::check(result.get().as_bytes())?;
    }
    Ok(outcome)
}

/// Converts an HTTP error that contains a JSON-RPC error into that error.
pub(super) fn rpc_outcome(
    outcome: Result<RpcOutcome, McpErrorKind>,
) -> Result<RpcOutcome, McpErrorKind> {
    match outcome {
        Err(McpErrorKind::HttpStatus {
            status,
            retry_after: None,
            rpc: Some(error),
            ..
        }) if !matches!(status, 401 | 403 | 407 | 429) => Ok(Err(*error)),
        other => other,
    }
}
