//! Sends a request: once, or several times where a repetition is harmless, and follows its input
//! requests to the final result.

use std::borrow::Cow;
use std::sync::Arc;

use futures_util::future::try_join_all;
use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value, json};

use super::delivery::Delivery;
use super::known_tools::KnownTool;
use super::result_type::result_type;
use super::{McpClient, RequestOptions};
use crate::connect::{HEADER_MISMATCH, UNSUPPORTED_VERSION, newest_common_revision};
use crate::jsonrpc::RpcOutcome;
use crate::metadata::{CLIENT_CAPABILITIES, RESERVED_PREFIX, with_tasks};
use crate::peer::ProgressGuard;
use crate::repeat::{Repeat, is_first_break};
use crate::result_cache::McpResultCache;
use crate::session::{RequestExtras, Session, rpc_outcome};
use crate::{Feature, McpErrorKind};
use pillion_egress::MAX_REPEATS;

/// Maximum number of rounds in which a server may request input for one request.
pub(super) const MAX_ROUNDS: u32 = 16;

/// Maximum number of input requests in one round.
pub(super) const MAX_INPUT_REQUESTS: usize = 32;

/// Maximum size of the key of an input request, in bytes.
const MAX_KEY_LEN: usize = 1024;

/// An intermediate result: the server requests input first (MCP 2026-07-28, "Multi Round-Trip
/// Requests").
#[derive(Deserialize)]
struct InputRequired<'a> {
    #[serde(rename = "inputRequests", default)]
    requests: Option<IndexMap<String, InputRequest>>,
    #[serde(rename = "requestState", borrow, default)]
    state: Option<&'a RawValue>,
}

#[derive(Deserialize)]
pub(super) struct InputRequest {
    method: String,
    #[serde(default)]
    params: Option<Box<RawValue>>,
}

pub(super) type InputResponses = IndexMap<String, Value>;

impl McpClient {
    /// Sends a request and follows it to its final result, through input requests and tasks. The
    /// caller enforces the deadline.
    pub(super) async fn run(
        &self,
        method: &str,
        params: &RawValue,
        options: &RequestOptions,
        delivery: &Delivery,
    ) -> Result<Box<RawValue>, McpErrorKind> {
        let (meta, _following) = self.meta(options);
        let mut sent = Cow::Borrowed(params);
        for round in 0..MAX_ROUNDS {
            let (outcome, session) = match round {
                0 => self.cached_exchange(method, &sent, &meta, delivery).await?,
                _ => self.exchange(method, &sent, &meta, delivery).await?,
            };
            let result = outcome?;
            if !session.has(Feature::RequestMetadata) {
                return Ok(result);
            }
            match &*result_type(&result) {
                "complete" => return Ok(result),
                "input_required" if options.return_input_requests => return Ok(result),
                "input_required" => {
                    let more = Box::pin(self.respond_to_input_requests(&result)).await?;
                    sent = Cow::Owned(with_entries(params, more)?);
                }
                "task" if method == "tools/call" => {
                    return Box::pin(self.follow_task(&result, options, delivery)).await;
                }
                other => {
                    return Err(McpErrorKind::UnknownResultType {
                        result_type: other.chars().take(100).collect(),
                    });
                }
            }
        }
        Err(McpErrorKind::TooManyRounds { limit: MAX_ROUNDS })
    }

    /// Returns the `_meta` of a request, with a progress token if there is a progress handler.
    fn meta(&self, options: &RequestOptions) -> (Map<String, Value>, Option<ProgressGuard>) {
        let mut meta = options.meta.clone();
        if let Some(capabilities) = &options.capabilities {
            let capabilities = with_tasks(capabilities.clone());
            meta.insert(CLIENT_CAPABILITIES.to_owned(), capabilities.into());
        }
        let callback = options.on_progress.clone();
        let following = callback.map(|callback| self.shared.peer.follow(callback));
        if let Some(following) = &following {
            meta.insert("progressToken".to_owned(), json!(following.token));
        }
        (meta, following)
    }

    /// Returns the entries to add to the repeated request: the responses to the server's input
    /// requests, and the server's state, unchanged.
    async fn respond_to_input_requests(
        &self,
        result: &RawValue,
    ) -> Result<Vec<(&'static str, Box<RawValue>)>, McpErrorKind> {
        let required: InputRequired<'_> = serde_json::from_str(result.get()).map_err(unexpected)?;
        let mut more = Vec::new();
        if required.requests.is_none() && required.state.is_none() {
            let reason = "neither `inputRequests` nor `requestState`";
            return Err(unexpected(serde::de::Error::custom(reason)));
        }
        if let Some(input_requests) = required.requests {
            let responses = self.input_responses(input_requests).await?;
            more.push(("inputResponses", raw(&responses)?));
        }
        if let Some(state) = required.state {
            more.push(("requestState", state.to_owned()));
        }
        Ok(more)
    }

    /// Returns the responses to the input requests of one round.
    pub(super) async fn input_responses(
        &self,
        input_requests: IndexMap<String, InputRequest>,
    ) -> Result<InputResponses, McpErrorKind> {
        if input_requests.len() > MAX_INPUT_REQUESTS {
            return Err(McpErrorKind::TooManyRounds { limit: MAX_ROUNDS });
        }
        if input_requests.keys().any(|key| key.len() > MAX_KEY_LEN) {
            let reason = "a key of `inputRequests` is too long";
            return Err(unexpected(serde::de::Error::custom(reason)));
        }
        let responding = input_requests
            .into_iter()
            .map(async |(key, input_request)| {
                let InputRequest { method, params } = input_request;
                match self.shared.peer.callbacks().answer(&method, params).await {
                    Ok(response) => Ok((key, response)),
                    Err(error) => Err(McpErrorKind::InputRequired {
                        method,
                        reason: error.message,
                    }),
                }
            });
        // A user may take a while, and the client may be disconnected meanwhile.
        let closed = self.shared.connections.closed();
        let responses = closed.run_until_closed(try_join_all(responding)).await??;
        Ok(responses.into_iter().collect())
    }
}

/// Returns `params` with additional entries.
fn with_entries(
    params: &RawValue,
    entries: Vec<(&'static str, Box<RawValue>)>,
) -> Result<Box<RawValue>, McpErrorKind> {
    let mut all: IndexMap<Cow<'_, str>, Cow<'_, RawValue>> =
        serde_json::from_str::<IndexMap<Cow<'_, str>, &RawValue>>(params.get())
            .map_err(McpErrorKind::Encode)?
            .into_iter()
            .map(|(key, value)| (key, Cow::Borrowed(value)))
            .collect();
    for (key, value) in entries {
        all.insert(Cow::Borrowed(key), Cow::Owned(value));
    }
    raw(&all)
}

pub(super) fn raw(value: &impl Serialize) -> Result<Box<RawValue>, McpErrorKind> {
    to_raw_value(value).map_err(McpErrorKind::Encode)
}

pub(super) fn unexpected(source: serde_json::Error) -> McpErrorKind {
    McpErrorKind::UnexpectedResult {
        method: "tools/call",
        source,
    }
}

/// Maximum number of connections that may end before a byte of one request has been sent.
const MAX_CHANNELS: usize = 8;

/// The reason for sending a request again.
#[derive(Debug, PartialEq, Eq)]
enum RetryReason {
    /// The session has expired; the server has not processed the request.
    SessionExpired,
    /// The server uses another transport or revision now; it has not processed the request.
    DialectChanged,
    /// The connection broke, and repeating the request is harmless.
    ConnectionBroken,
    /// The server rejected the revision, although it lists that revision as supported.
    RevisionRejected,
    /// The headers that mirror parameters were not those that the tool requires by now.
    HeadersChanged,
}

impl McpClient {
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
            let session = self.shared.connections.session().await?;
            if let Some(result) = self.shared.results.get(method, params) {
                return Ok((Ok(result), session));
            }
        }
        let sent = is_cacheable.then(|| self.shared.results.generation(method));
        let (outcome, session) = self.exchange(method, params, meta, delivery).await?;
        if let Ok(result) = &outcome
            && let Some(sent) = sent
            && session.has(Feature::RequestMetadata)
        {
            self.shared.results.put(method, params, result, sent);
        }
        Ok((outcome, session))
    }

    /// Sends a request and returns the response. Rare paths are boxed here and below, so that they
    /// do not make every exchange larger. The request is repeated only if that is harmless.
    pub(super) async fn exchange(
        &self,
        method: &str,
        params: &RawValue,
        meta: &Map<String, Value>,
        delivery: &Delivery,
    ) -> Result<(RpcOutcome, Arc<Session>), McpErrorKind> {
        let url = &self.shared.display_url;
        let mut tried = Vec::new();
        loop {
            let session = self.shared.connections.session().await?;
            tracing::debug!(mcp.url = url, mcp.method = method, "MCP request");
            let extras = self.extras(&session, method, params, meta);
            let exchange = session.exchange_unconverted(method, params, extras);
            let received = delivery.track(exchange).await;
            let was_answered = received.is_ok();
            let outcome = rpc_outcome(received);
            self.shared.connections.learn(&outcome);
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
                    self.shared.connections.forget(&session).await;
                }
                RetryReason::RevisionRejected => {}
                RetryReason::DialectChanged => {
                    let before = session.version();
                    self.shared.connections.forget_dialect(&session).await;
                    let reconnected = self.shared.connections.session().await;
                    let after = reconnected.map(|session| session.version());
                    if after.as_ref().is_ok_and(|after| *after == before) {
                        self.shared.connections.false_alarms().note(&outcome);
                    }
                    let is_other = after.is_ok_and(|after| after != before);
                    let may_have_run =
                        !is_other || was_answered && !is_rejected_revision(&session, &outcome);
                    if may_have_run && !Repeat::for_method(method).is_harmless() {
                        // The error may come from the tool, so the request must not be repeated.
                        return Ok((outcome?, session));
                    }
                }
                RetryReason::HeadersChanged => {
                    self.shared.results.forget("tools/list");
                    Box::pin(self.learn_tools(&session)).await?;
                }
            }
            tried.push(again);
        }
    }

    /// Returns whether a request may be sent again for this reason. A request is sent again once
    /// for each reason, but several times if a connection breaks, or if the connection to a
    /// program, or a WebSocket, ends before a byte of the request has been sent.
    fn can_repeat(&self, reason: &RetryReason, tried: &[RetryReason]) -> bool {
        let before = tried.iter().filter(|other| *other == reason).count();
        let max = match reason {
            RetryReason::SessionExpired if self.shared.connections.is_channel() => MAX_CHANNELS,
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
            // An older server would treat reserved keys as an application's.
            extras
                .meta
                .retain(|key, _| !key.starts_with(RESERVED_PREFIX));
            return extras;
        }
        if let Some(level) = self.shared.connections.settings().log_level() {
            let key = "io.modelcontextprotocol/logLevel".to_owned();
            extras.meta.insert(key, json!(level));
        }
        if self.shared.tools.has_param_headers()
            && let Some((tool, arguments)) = self.called_tool(method, params)
        {
            extras.mirrored = tool.headers(arguments);
        }
        extras
    }

    /// Returns the tool that a request calls, if the last list contained it, and the arguments.
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
        let tool = self.shared.tools.get(&call.name)?;
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
                // Before that revision, this is an error code of the tool, which may have run.
                session
                    .has(Feature::RequestMetadata)
                    .then_some(RetryReason::HeadersChanged)
            }
            Ok(Err(error)) if error.code == UNSUPPORTED_VERSION => {
                let named = newest_common_revision(error);
                if named.is_some() && named == session.version() {
                    // Before that revision, this is an error code of the tool, which may have run.
                    let is_rejection = session.has(Feature::RequestMetadata)
                        || Repeat::for_method(method).is_harmless();
                    return is_rejection.then_some(RetryReason::RevisionRejected);
                }
                self.may_have_changed(outcome)
                    .then_some(RetryReason::DialectChanged)
            }
            outcome => {
                let misfit = !self.shared.connections.is_channel()
                    && is_foreign_response(session, outcome)
                    && self.may_have_changed(outcome);
                misfit.then_some(RetryReason::DialectChanged)
            }
        }
    }

    /// Returns whether an outcome may mean a changed server, which a check can tell.
    fn may_have_changed(&self, outcome: &Result<RpcOutcome, McpErrorKind>) -> bool {
        let connections = &self.shared.connections;
        connections.detects_dialect() && !connections.false_alarms().covers(outcome)
    }
}

/// Returns whether the server rejected the revision of the request, which MCP 2026-07-28 requires
/// before a tool runs.
fn is_rejected_revision(session: &Session, outcome: &Result<RpcOutcome, McpErrorKind>) -> bool {
    session.has(Feature::RequestMetadata)
        && matches!(outcome, Ok(Err(error)) if error.code == UNSUPPORTED_VERSION)
}

/// Returns whether a server without a handshake now responds like a server that requires one: with
/// a status that has no meaning in that revision, or an error code of the range that earlier
/// servers used. Such a server has not processed the request. A server of unknown revision may use
/// those codes for anything.
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
