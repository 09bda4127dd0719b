//! Sends a request: once, or several times if sending it again is harmless.

use std::borrow::Cow;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::connection::ClientConnection;
use super::delivery::Delivery;
use super::known_tools::{KnownTool, KnownTools};
use super::listing::learn_tools;
use crate::callbacks::Callbacks;
use crate::connect::{HEADER_MISMATCH, UNSUPPORTED_VERSION, newest_common_revision};
use crate::jsonrpc::RpcOutcome;
use crate::metadata::RESERVED_PREFIX;
use crate::peer::Peer;
use crate::repeat::{Repeat, is_first_break};
use crate::result_cache::McpResultCache;
use crate::session::{RequestExtras, Session, rpc_outcome};
use crate::{Feature, McpErrorKind, ServerConfig};
use pillion_egress::MAX_REPEATS;

/// Maximum number of connections that may end before any byte of one request has been sent.
const MAX_CHANNELS: usize = 8;

/// The reason for sending a request again.
#[derive(Debug, PartialEq, Eq)]
enum RetryReason {
    /// The session has expired; the server has not processed the request.
    SessionExpired,
    /// The server has changed its transport or revision; it has not processed the request.
    DialectChanged,
    /// The connection broke, and repeating the request is harmless.
    ConnectionBroken,
    /// The server rejected the request's revision, although it lists that revision as supported.
    RevisionRejected,
    /// The tool now requires other headers that mirror parameters than the request had.
    HeadersChanged,
}

/// Sends the requests of one client, over the client's current session.
pub(super) struct RequestSender {
    pub(super) config: Arc<ServerConfig>,
    /// The server's URL or command, for logs.
    display_url: String,
    pub(super) peer: Arc<Peer>,
    pub(super) connections: ClientConnection,
    pub(super) tools: KnownTools,
    results: Arc<McpResultCache>,
}

impl RequestSender {
    pub(super) fn new(config: ServerConfig, callbacks: Callbacks) -> Self {
        let config = Arc::new(config);
        let results = Arc::new(McpResultCache::default());
        let peer = Arc::new(Peer::new(callbacks, Arc::clone(&results)));
        Self {
            connections: ClientConnection::new(Arc::clone(&config), Arc::clone(&peer)),
            display_url: config.display_url(),
            config,
            peer,
            tools: KnownTools::default(),
            results,
        }
    }

    /// Sends a request, or answers it from the result cache if the server allows that.
    pub(super) async fn cached_exchange(
        &self,
        method: &str,
        params: &RawValue,
        meta: &Map<String, Value>,
        delivery: &Delivery,
    ) -> Result<(RpcOutcome, Arc<Session>), McpErrorKind> {
        let is_cacheable = McpResultCache::covers(method);
        if is_cacheable {
            let session = self.connections.session().await?;
            if let Some(result) = self.results.get(method, params) {
                return Ok((Ok(result), session));
            }
        }
        let sent = is_cacheable.then(|| self.results.generation(method));
        let (outcome, session) = self.exchange(method, params, meta, delivery).await?;
        if let Ok(result) = &outcome
            && let Some(sent) = sent
            && session.has(Feature::RequestMetadata)
        {
            self.results.put(method, params, result, sent);
        }
        Ok((outcome, session))
    }

    /// Sends a request and returns the response. Sends the request again only if that is harmless.
    /// Rare paths are boxed here and in called functions, so that they do not enlarge every
    /// exchange.
    pub(super) async fn exchange(
        &self,
        method: &str,
        params: &RawValue,
        meta: &Map<String, Value>,
        delivery: &Delivery,
    ) -> Result<(RpcOutcome, Arc<Session>), McpErrorKind> {
        let url = &self.display_url;
        let mut tried = Vec::new();
        loop {
            let session = self.connections.session().await?;
            tracing::debug!(mcp.url = url, mcp.method = method, "MCP request");
            let extras = self.extras(&session, method, params, meta);
            let exchange = session.exchange_unconverted(method, params, extras);
            let received = delivery.track(exchange).await;
            let was_answered = received.is_ok();
            let outcome = rpc_outcome(received);
            self.connections.learn(&outcome);
            tracing::debug!(
                mcp.url = url,
                mcp.method = method,
                success = matches!(outcome, Ok(Ok(_))),
                "MCP response"
            );
            let again = self.again(&session, method, params, &outcome);
            let Some(again) = again.filter(|reason| self.can_repeat(reason, &tried)) else {
                return Ok((outcome?, session));
            };
            tracing::debug!(?again, "Retrying the MCP request");
            match again {
                // An HTTP session outlives its connections.
                RetryReason::ConnectionBroken if session.is_open() => {}
                RetryReason::SessionExpired | RetryReason::ConnectionBroken => {
                    self.connections.forget(&session).await;
                }
                RetryReason::RevisionRejected => {}
                RetryReason::DialectChanged => {
                    let before = session.version();
                    self.connections.forget_dialect(&session).await;
                    let reopened = self.connections.session().await;
                    let now = reopened.map(|session| session.version());
                    if now.as_ref().is_ok_and(|now| *now == before) {
                        self.connections.false_alarms.note(&outcome);
                    }
                    let is_other = now.is_ok_and(|now| now != before);
                    let may_have_run =
                        !is_other || was_answered && !is_rejected_revision(&session, &outcome);
                    if may_have_run && !Repeat::for_method(method).is_harmless() {
                        // The error may come from the tool, so the request must not be sent again.
                        return Ok((outcome?, session));
                    }
                }
                RetryReason::HeadersChanged => {
                    self.results.forget("tools/list");
                    Box::pin(learn_tools(self, &session)).await?;
                }
            }
            tried.push(again);
        }
    }

    /// Returns whether a request may be sent again for this reason: once for each reason, but
    /// several times if a connection breaks, or if a stdio or WebSocket connection ends before any
    /// byte of the request has been sent.
    fn can_repeat(&self, reason: &RetryReason, tried: &[RetryReason]) -> bool {
        let before = tried.iter().filter(|other| *other == reason).count();
        let max = match reason {
            RetryReason::SessionExpired if self.connections.is_channel() => MAX_CHANNELS,
            RetryReason::ConnectionBroken => MAX_REPEATS as usize,
            _ => 1,
        };
        before < max
    }

    fn extras(
        &self,
        session: &Session,
        method: &str,
        params: &RawValue,
        meta: &Map<String, Value>,
    ) -> RequestExtras {
        let mut extras = RequestExtras {
            meta: meta.clone(),
            ..RequestExtras::default()
        };
        if !session.has(Feature::RequestMetadata) {
            // A server of an older revision would treat the reserved keys as those of an
            // application.
            extras
                .meta
                .retain(|key, _| !key.starts_with(RESERVED_PREFIX));
            return extras;
        }
        if let Some(level) = self.connections.settings.log_level() {
            let key = "io.modelcontextprotocol/logLevel".to_owned();
            extras.meta.insert(key, json!(level));
        }
        if self.tools.has_param_headers()
            && let Some((tool, arguments)) = self.called_tool(method, params)
        {
            extras.mirrored = tool.headers(arguments);
        }
        extras
    }

    /// Returns the tool that a request calls, and the arguments, if the last list of tools
    /// contained the tool.
    fn called_tool<'a>(
        &self,
        method: &str,
        params: &'a RawValue,
    ) -> Option<(Arc<KnownTool>, &'a RawValue)> {
        #[derive(Deserialize)]
        struct Call<'a> {
            #[serde(borrow)]
            name: Cow<'a, str>,
            #[serde(borrow, default)]
            arguments: Option<&'a RawValue>,
        }
        if method != "tools/call" {
            return None;
        }
        let call: Call<'a> = serde_json::from_str(params.get()).ok()?;
        let tool = self.tools.get(&call.name)?;
        Some((tool, call.arguments.unwrap_or(RawValue::NULL)))
    }

    fn again(
        &self,
        session: &Session,
        method: &str,
        params: &RawValue,
        outcome: &Result<RpcOutcome, McpErrorKind>,
    ) -> Option<RetryReason> {
        match outcome {
            Err(McpErrorKind::SessionExpired) => Some(RetryReason::SessionExpired),
            Err(
                error @ (McpErrorKind::Broken(_)
                | McpErrorKind::StreamClosed
                | McpErrorKind::ResponseLost(_)
                | McpErrorKind::ProcessEnded { .. }),
            ) => {
                if matches!(error, McpErrorKind::Broken(_)) && !is_first_break(error) {
                    return None;
                }
                let tool = || self.called_tool(method, params);
                let harmless = Repeat::for_method(method).is_harmless()
                    || tool().is_some_and(|(tool, _)| tool.harmless_twice);
                harmless.then_some(RetryReason::ConnectionBroken)
            }
            Ok(Err(error)) if error.code == HEADER_MISMATCH && method == "tools/call" => {
                // In older revisions, the tool may use this error code, and may have run.
                session
                    .has(Feature::RequestMetadata)
                    .then_some(RetryReason::HeadersChanged)
            }
            Ok(Err(error)) if error.code == UNSUPPORTED_VERSION => {
                let named = newest_common_revision(error);
                if named.is_some() && named == session.version() {
                    // In older revisions, the tool may use this error code, and may have run.
                    let is_rejection = session.has(Feature::RequestMetadata)
                        || Repeat::for_method(method).is_harmless();
                    return is_rejection.then_some(RetryReason::RevisionRejected);
                }
                self.may_have_changed(outcome)
                    .then_some(RetryReason::DialectChanged)
            }
            outcome => {
                let misfit = !self.connections.is_channel()
                    && is_foreign_response(session, outcome)
                    && self.may_have_changed(outcome);
                misfit.then_some(RetryReason::DialectChanged)
            }
        }
    }

    /// Returns whether an outcome may mean that the server's transport or revision has changed,
    /// which the client then checks.
    fn may_have_changed(&self, outcome: &Result<RpcOutcome, McpErrorKind>) -> bool {
        let connections = &self.connections;
        connections.detects_dialect() && !connections.false_alarms.covers(outcome)
    }
}

/// Returns whether the server rejected the revision of the request. MCP 2026-07-28 requires servers
/// to do so before a tool runs.
fn is_rejected_revision(session: &Session, outcome: &Result<RpcOutcome, McpErrorKind>) -> bool {
    session.has(Feature::RequestMetadata)
        && matches!(outcome, Ok(Err(error)) if error.code == UNSUPPORTED_VERSION)
}

/// Returns whether a server without a handshake now responds like a server that requires one: with
/// a status that has no meaning in a revision without a handshake, or an error code of the range
/// that earlier servers used. Such a server has not processed the request. A server of unknown
/// revision may use those codes for anything.
fn is_foreign_response(session: &Session, outcome: &Result<RpcOutcome, McpErrorKind>) -> bool {
    let is_stateless = session.has(Feature::RequestMetadata);
    match outcome {
        Err(McpErrorKind::HttpStatus { status, rpc, .. }) => {
            let is_any = is_stateless || session.version().is_none();
            is_any && matches!(status, 400 | 404 | 405) && rpc.is_none()
        }
        Ok(Err(error)) => {
            let is_older = matches!(error.code, -32019..=-32000 | -32600);
            is_stateless && is_older && error.code != -32002
        }
        _ => false,
    }
}
