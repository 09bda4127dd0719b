//! Sends a request and follows it to its final result: retries the request if a retry is harmless,
//! responds to the server's input requests, and polls the request's task.

use std::borrow::Cow;
use std::sync::Arc;

use futures_util::future::try_join_all;
use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value, json};

use super::RequestOptions;
use super::connection::ClientConnection;
use super::delivery::Delivery;
use super::known_tools::{KnownTool, KnownTools};
use super::list_reader::ListKind;
use super::listing::{new_reader, request_known_tools, store_known_tools};
use super::result_type::result_type;
use super::tasks::follow_task;
use crate::callbacks::Callbacks;
use crate::connect::{HEADER_MISMATCH, UNSUPPORTED_VERSION, find_newest_common_revision};
use crate::message::{CLIENT_CAPABILITIES, RESERVED_PREFIX, RpcOutcome, add_tasks_extension};
use crate::on_drop::OnDrop;
use crate::peer::Peer;
use crate::repeat::{RepeatSafety, is_first_break};
use crate::result_cache::McpResultCache;
use crate::session::{RequestExtras, Session, to_rpc_outcome};
use crate::{Feature, McpErrorKind, ServerConfig};
use pillion_egress::MAX_REPEATS;

/// Maximum number of times that a request is sent again over a new stdio or WebSocket connection,
/// because the previous connection ended before any byte of the request was sent.
const MAX_CHANNEL_ATTEMPTS: usize = 8;

const METHOD_NOT_FOUND: i64 = -32601;

/// Maximum number of rounds in which a server may request input for one request.
pub(super) const MAX_ROUNDS: u32 = 16;

/// Maximum number of input requests in one round.
pub(super) const MAX_INPUT_REQUESTS: usize = 32;

/// Maximum size of the key of an input request, in bytes.
const MAX_KEY_BYTES: usize = 1024;

/// The reason why a request is sent again.
#[derive(Debug, PartialEq, Eq)]
enum RetryReason {
    /// The session has expired; the server has not processed the request.
    SessionExpired,
    /// The server may have changed its transport or revision. The client checks this before it
    /// sends the request again.
    DialectChanged,
    /// The connection broke, and repeating the request is harmless.
    ConnectionBroken,
    /// The server rejected the request's revision, although it lists that revision as supported.
    RevisionRejected,
    /// The server rejected the headers that mirror the parameters of a tool call, because the
    /// tool's header annotations may have changed.
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
    result_cache: Arc<McpResultCache>,
}

impl RequestSender {
    pub(super) fn new(config: ServerConfig, callbacks: Callbacks) -> Self {
        let config = Arc::new(config);
        let result_cache = Arc::new(McpResultCache::default());
        let peer = Arc::new(Peer::new(callbacks, Arc::clone(&result_cache)));
        Self {
            connections: ClientConnection::new(Arc::clone(&config), Arc::clone(&peer)),
            display_url: config.display_url(),
            config,
            peer,
            tools: KnownTools::default(),
            result_cache,
        }
    }

    /// Sends a request, or returns the cached result if the server allows caching and the result is
    /// cached.
    pub(super) async fn cached_exchange(
        &self,
        method: &str,
        params: &RawValue,
        meta: &Map<String, Value>,
        delivery: &Delivery,
    ) -> Result<(RpcOutcome, Arc<Session>), McpErrorKind> {
        let is_cacheable = McpResultCache::is_cacheable(method);
        if is_cacheable {
            let session = self.connections.session().await?;
            if let Some(result) = self.result_cache.get(method, params) {
                return Ok((Ok(result), session));
            }
        }
        let generation = is_cacheable.then(|| self.result_cache.generation(method));
        let (outcome, session) = self.exchange(method, params, meta, delivery).await?;
        if let Ok(result) = &outcome
            && let Some(generation) = generation
            && session.has_feature(Feature::RequestMetadata)
        {
            self.result_cache.put(method, params, result, generation);
        }
        Ok((outcome, session))
    }

    /// Sends a request and returns the response. Sends the request again only if that is harmless.
    /// The futures of rare paths are boxed here and in called functions, so that they do not
    /// enlarge the future of every exchange.
    pub(super) async fn exchange(
        &self,
        method: &str,
        params: &RawValue,
        meta: &Map<String, Value>,
        delivery: &Delivery,
    ) -> Result<(RpcOutcome, Arc<Session>), McpErrorKind> {
        let url = &self.display_url;
        let mut retry_reasons = Vec::new();
        loop {
            let session = self.connections.session().await?;
            tracing::debug!(mcp.url = url, mcp.method = method, "MCP request");
            let extras = self.build_request_extras(&session, method, params, meta);
            let exchange = session.exchange_unconverted(method, params, extras);
            let unconverted_outcome = delivery.track_exchange(exchange).await;
            let was_answered = unconverted_outcome.is_ok();
            let outcome = to_rpc_outcome(unconverted_outcome);
            self.connections.update_circuit(&outcome);
            tracing::debug!(
                mcp.url = url,
                mcp.method = method,
                success = matches!(outcome, Ok(Ok(_))),
                "MCP response"
            );
            let Some(retry_reason) = self
                .find_retry_reason(&session, method, params, &outcome)
                .filter(|reason| self.can_repeat(reason, &retry_reasons))
            else {
                return Ok((outcome?, session));
            };
            tracing::debug!(reason = ?retry_reason, "Retrying the MCP request");
            match retry_reason {
                // The session is used again, because an HTTP session outlives its connections.
                RetryReason::ConnectionBroken if session.is_open() => {}
                RetryReason::SessionExpired | RetryReason::ConnectionBroken => {
                    self.connections.forget(&session).await;
                }
                RetryReason::RevisionRejected => {}
                RetryReason::DialectChanged => {
                    let old_version = session.version();
                    self.connections.forget_dialect(&session).await;
                    let reopen_outcome = self.connections.session().await;
                    let new_version = reopen_outcome.map(|session| session.version()).ok();
                    if new_version == Some(old_version) {
                        self.connections.false_alarms.add(&outcome);
                    }
                    let has_changed = new_version.is_some_and(|version| version != old_version);
                    let may_have_run =
                        !has_changed || was_answered && !is_rejected_revision(&session, &outcome);
                    if may_have_run && !RepeatSafety::for_method(method).is_harmless() {
                        // The error may come from the tool, so the request must not be sent again.
                        return Ok((outcome?, session));
                    }
                }
                RetryReason::HeadersChanged => {
                    self.result_cache.forget("tools/list");
                    let list_request = request_known_tools(&self.tools, &self.config, &session);
                    Box::pin(list_request).await?;
                }
            }
            retry_reasons.push(retry_reason);
        }
    }

    /// Sends a request without options and returns its result, which may be a request for input.
    pub(super) async fn send(
        &self,
        method: &str,
        params: &Value,
    ) -> Result<Box<RawValue>, McpErrorKind> {
        let (params, meta) = (to_raw(params)?, Map::new());
        let delivery = Delivery::default();
        let exchange = self.exchange(method, &params, &meta, &delivery);
        Ok(exchange.await?.0?)
    }

    /// Returns the usable tools of all pages, and stores the properties of the tools that are
    /// needed for calls.
    pub(super) async fn list_tools(&self) -> Result<Vec<Box<RawValue>>, McpErrorKind> {
        let list = self.tools.new_list(&self.config.label);
        let (entries, session) = self.read_list(ListKind::TOOLS).await?;
        let has_metadata =
            session.is_some_and(|session| session.has_feature(Feature::RequestMetadata));
        let tools = store_known_tools(&self.tools, &self.config, has_metadata, list, entries).await;
        Ok(tools)
    }

    /// Returns the entries of all pages, and the session in which the last page was requested. The
    /// session may have ended since. The entries are empty if the server does not know the method.
    pub(super) async fn read_list(
        &self,
        kind: ListKind,
    ) -> Result<(Vec<Box<RawValue>>, Option<Arc<Session>>), McpErrorKind> {
        let mut reader = new_reader(&self.config, kind);
        let mut last_session = None;
        while let Some(params) = reader.next_page_params()? {
            let (outcome, session) = self
                .cached_exchange(kind.method, &params, &Map::new(), &Delivery::default())
                .await?;
            last_session = Some(session);
            match outcome {
                Err(error) if error.code == METHOD_NOT_FOUND => break,
                outcome => reader = reader.read_page(outcome?).await?,
            }
        }
        Ok((reader.into_entries(), last_session))
    }

    /// Returns whether a request can be sent again for `reason`. For most reasons, a request is
    /// sent again only once. A request can be sent again several times if the connection broke, or
    /// if a stdio or WebSocket connection ended before any byte of the request was sent.
    fn can_repeat(&self, reason: &RetryReason, earlier: &[RetryReason]) -> bool {
        let repeat_count = earlier.iter().filter(|other| *other == reason).count();
        let max_repeats = match reason {
            RetryReason::SessionExpired if self.connections.uses_channel() => MAX_CHANNEL_ATTEMPTS,
            RetryReason::ConnectionBroken => MAX_REPEATS as usize,
            _ => 1,
        };
        repeat_count < max_repeats
    }

    /// Returns the metadata of a request, in the form of the session's revision.
    fn build_request_extras(
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
        if !session.has_feature(Feature::RequestMetadata) {
            // The reserved keys are removed, because older revisions do not define them, and a
            // server could give them another meaning.
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
            && let Some((tool, arguments)) = self.find_called_tool(method, params)
        {
            extras.mirrored_headers = tool.headers(arguments);
        }
        extras
    }

    /// Returns the tool that a request calls, and the arguments, if the last list of tools
    /// contained the tool.
    fn find_called_tool<'a>(
        &self,
        method: &str,
        params: &'a RawValue,
    ) -> Option<(Arc<KnownTool>, &'a RawValue)> {
        #[derive(Deserialize)]
        struct ToolCallParams<'a> {
            #[serde(borrow)]
            name: Cow<'a, str>,
            #[serde(borrow, default)]
            arguments: Option<&'a RawValue>,
        }
        if method != "tools/call" {
            return None;
        }
        let call: ToolCallParams<'a> = serde_json::from_str(params.get()).ok()?;
        let tool = self.tools.get(&call.name)?;
        Some((tool, call.arguments.unwrap_or(RawValue::NULL)))
    }

    /// Returns the reason for sending a request again after an outcome; `None` if the request must
    /// not be sent again.
    fn find_retry_reason(
        &self,
        session: &Session,
        method: &str,
        params: &RawValue,
        outcome: &Result<RpcOutcome, McpErrorKind>,
    ) -> Option<RetryReason> {
        match outcome {
            Err(McpErrorKind::SessionExpired) => Some(RetryReason::SessionExpired),
            Err(error @ McpErrorKind::ConnectionBroken(_)) if !is_first_break(error) => None,
            Err(
                McpErrorKind::ConnectionBroken(_)
                | McpErrorKind::StreamClosed
                | McpErrorKind::ResponseLost(_)
                | McpErrorKind::ProcessEnded { .. },
            ) => {
                let tool = || self.find_called_tool(method, params);
                let is_harmless = RepeatSafety::for_method(method).is_harmless()
                    || tool().is_some_and(|(tool, _)| tool.is_repeatable);
                is_harmless.then_some(RetryReason::ConnectionBroken)
            }
            Ok(Err(error)) if error.code == HEADER_MISMATCH && method == "tools/call" => {
                // In revisions before 2026-07-28, the error may come from a tool that has run.
                session
                    .has_feature(Feature::RequestMetadata)
                    .then_some(RetryReason::HeadersChanged)
            }
            Ok(Err(error)) if error.code == UNSUPPORTED_VERSION => {
                let common_revision = find_newest_common_revision(error);
                if common_revision.is_some() && common_revision == session.version() {
                    // In revisions before 2026-07-28, the error may come from a tool that has run.
                    let is_rejection = session.has_feature(Feature::RequestMetadata)
                        || RepeatSafety::for_method(method).is_harmless();
                    return is_rejection.then_some(RetryReason::RevisionRejected);
                }
                self.may_have_changed(outcome)
                    .then_some(RetryReason::DialectChanged)
            }
            outcome => {
                let may_be_outdated = !self.connections.uses_channel()
                    && is_foreign_response(session, outcome)
                    && self.may_have_changed(outcome);
                may_be_outdated.then_some(RetryReason::DialectChanged)
            }
        }
    }

    /// Returns whether an outcome may mean that the server's transport or revision has changed,
    /// which the client then checks.
    fn may_have_changed(&self, outcome: &Result<RpcOutcome, McpErrorKind>) -> bool {
        let connections = &self.connections;
        connections.detects_dialect() && !connections.false_alarms.contains(outcome)
    }
}

/// Returns whether the server rejected the revision of the request. MCP 2026-07-28 requires servers
/// to reject an unsupported revision before a tool runs.
fn is_rejected_revision(session: &Session, outcome: &Result<RpcOutcome, McpErrorKind>) -> bool {
    session.has_feature(Feature::RequestMetadata)
        && matches!(outcome, Ok(Err(error)) if error.code == UNSUPPORTED_VERSION)
}

/// Returns whether the response in a session without a handshake suggests that the server now
/// requires a handshake. Such a response is one of:
///
/// - HTTP 400, 404 or 405 without a JSON-RPC error
/// - a JSON-RPC error code that only revisions before 2026-07-28 use, if the session has the
///   revision 2026-07-28 or later; in a session without a revision, error codes prove nothing
fn is_foreign_response(session: &Session, outcome: &Result<RpcOutcome, McpErrorKind>) -> bool {
    let is_stateless = session.has_feature(Feature::RequestMetadata);
    match outcome {
        Err(McpErrorKind::HttpStatus {
            status, rpc_error, ..
        }) => {
            let may_have_changed = is_stateless || session.version().is_none();
            may_have_changed && matches!(status, 400 | 404 | 405) && rpc_error.is_none()
        }
        Ok(Err(error)) => {
            let is_legacy_code = matches!(error.code, -32019..=-32000 | -32600);
            is_stateless && is_legacy_code && error.code != -32002
        }
        _ => false,
    }
}

/// An intermediate result, by which the server requests input before it continues (MCP 2026-07-28,
/// "Multi Round-Trip Requests").
#[derive(Deserialize)]
struct InputRequired<'a> {
    #[serde(rename = "inputRequests", default)]
    requests: Option<IndexMap<String, InputRequest>>,
    #[serde(rename = "requestState", borrow, default)]
    state: Option<&'a RawValue>,
}

/// A request of the server for input from the client.
#[derive(Deserialize)]
pub(super) struct InputRequest {
    method: String,
    params: Option<Box<RawValue>>,
}

/// The client's responses to input requests, by the keys of the requests.
pub(super) type InputResponses = IndexMap<String, Value>;

/// Sends a request and follows it to its final result, through input requests and tasks. The
/// caller enforces the deadline.
pub(super) async fn send_request(
    sender: &Arc<RequestSender>,
    method: &str,
    params: &RawValue,
    options: &RequestOptions,
    delivery: &Delivery,
) -> Result<Box<RawValue>, McpErrorKind> {
    let (meta, _progress_guard) = build_request_meta(sender, options);
    let mut round_params = Cow::Borrowed(params);
    for round in 0..MAX_ROUNDS {
        let (outcome, session) = if round == 0 {
            let exchange = sender.cached_exchange(method, &round_params, &meta, delivery);
            exchange.await?
        } else {
            let exchange = sender.exchange(method, &round_params, &meta, delivery);
            exchange.await?
        };
        let result = outcome?;
        if !session.has_feature(Feature::RequestMetadata) {
            return Ok(result);
        }
        match &*result_type(&result) {
            "complete" => return Ok(result),
            "input_required" if options.return_input_requests => return Ok(result),
            "input_required" => {
                let entries = Box::pin(collect_input_entries(sender, &result)).await?;
                round_params = Cow::Owned(add_entries(params, entries)?);
            }
            "task" if method == "tools/call" => {
                return Box::pin(follow_task(sender, &result, options, delivery)).await;
            }
            unknown_type => {
                return Err(McpErrorKind::UnknownResultType {
                    result_type: unknown_type.chars().take(100).collect(),
                });
            }
        }
    }
    Err(McpErrorKind::TooManyRounds { limit: MAX_ROUNDS })
}

/// Returns the `_meta` of a request, with a progress token if there is a progress handler.
fn build_request_meta(
    sender: &RequestSender,
    options: &RequestOptions,
) -> (Map<String, Value>, Option<OnDrop<impl FnOnce() + use<>>>) {
    let mut meta = options.meta.clone();
    if let Some(capabilities) = &options.capabilities {
        let capabilities = add_tasks_extension(capabilities.clone());
        meta.insert(CLIENT_CAPABILITIES.to_owned(), capabilities.into());
    }
    let guard = options.on_progress.clone().map(|callback| {
        let (token, guard) = sender.peer.track_progress(callback);
        meta.insert("progressToken".to_owned(), json!(token));
        guard
    });
    (meta, guard)
}

/// Returns the parameters to add when the request is sent again: the client's responses to the
/// server's input requests, and the server's `requestState`, unchanged.
async fn collect_input_entries(
    sender: &RequestSender,
    result: &RawValue,
) -> Result<Vec<(&'static str, Box<RawValue>)>, McpErrorKind> {
    let input_required: InputRequired<'_> =
        serde_json::from_str(result.get()).map_err(unexpected_result)?;
    let mut entries = Vec::new();
    if input_required.requests.is_none() && input_required.state.is_none() {
        let reason = "a result that requests input has neither `inputRequests` nor `requestState`";
        return Err(unexpected_result(serde::de::Error::custom(reason)));
    }
    if let Some(requests) = input_required.requests {
        let responses = collect_input_responses(sender, requests).await?;
        entries.push(("inputResponses", to_raw(&responses)?));
    }
    if let Some(state) = input_required.state {
        entries.push(("requestState", state.to_owned()));
    }
    Ok(entries)
}

/// Processes the input requests of one round, and returns the responses to them.
pub(super) async fn collect_input_responses(
    sender: &RequestSender,
    requests: IndexMap<String, InputRequest>,
) -> Result<InputResponses, McpErrorKind> {
    if requests.len() > MAX_INPUT_REQUESTS {
        let limit = MAX_INPUT_REQUESTS;
        return Err(McpErrorKind::TooManyInputRequests { limit });
    }
    if requests.keys().any(|key| key.len() > MAX_KEY_BYTES) {
        let reason = format!("a key of `inputRequests` is longer than {MAX_KEY_BYTES} bytes");
        return Err(unexpected_result(serde::de::Error::custom(reason)));
    }
    let pending_responses = requests.into_iter().map(async |(key, request)| {
        let InputRequest { method, params } = request;
        match sender.peer.callbacks().respond(&method, params).await {
            Ok(response) => Ok((key, response)),
            Err(error) => Err(McpErrorKind::InputRequired {
                method,
                reason: error.message,
            }),
        }
    });
    // Disconnecting the client ends the wait for the responses, because a user may take any time to
    // respond.
    let close_signal = &sender.connections.close_signal;
    let all_responses = try_join_all(pending_responses);
    let responses = close_signal.run_until_closed(all_responses).await??;
    Ok(responses.into_iter().collect())
}

/// Returns `params` with additional entries.
fn add_entries(
    params: &RawValue,
    entries: Vec<(&'static str, Box<RawValue>)>,
) -> Result<Box<RawValue>, McpErrorKind> {
    let mut members: IndexMap<Cow<'_, str>, Cow<'_, RawValue>> =
        serde_json::from_str::<IndexMap<Cow<'_, str>, &RawValue>>(params.get())
            .map_err(McpErrorKind::UnserializableParams)?
            .into_iter()
            .map(|(key, value)| (key, Cow::Borrowed(value)))
            .collect();
    for (key, value) in entries {
        members.insert(Cow::Borrowed(key), Cow::Owned(value));
    }
    to_raw(&members)
}

/// Serializes a value as raw JSON.
pub(super) fn to_raw(value: &impl Serialize) -> Result<Box<RawValue>, McpErrorKind> {
    to_raw_value(value).map_err(McpErrorKind::UnserializableParams)
}

/// Returns the error for a result of `tools/call` that cannot be read.
pub(super) fn unexpected_result(source: serde_json::Error) -> McpErrorKind {
    McpErrorKind::UnexpectedResult {
        method: "tools/call",
        source,
    }
}
