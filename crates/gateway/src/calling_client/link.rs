//! The link from a running request back to its client, for progress notifications and for requests
//! of upstream servers to the client.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};

use axum::body::Bytes;
use pillion_core::digest::sha256_hex;
use pillion_core::tool::{ForwardedParameters, JsonObject, ToolFailure, TraceContext};
use pillion_mcp_client::{
    CLIENT_CAPABILITIES, Feature, McpLogLevel, ProgressNotification, ProtocolVersion,
    RESERVED_META, RequestOptions, RpcError, WholeValue,
};
use pillion_wire::MAX_ID_BYTES;
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use tokio::sync::{mpsc, oneshot};
use uuid::Uuid;

use super::message::{self, LOG_LEVEL_KEY, METHOD_NOT_FOUND, Members};

/// Maximum number of messages that wait for a slow client; further notifications are dropped.
const MAX_WAITING_MESSAGES: usize = 256;

/// A message that the sidecar sends to the client while a request runs, before the result.
#[derive(Debug)]
pub enum ClientMessage {
    /// A notification or response, serialized as JSON-RPC.
    Notice(Bytes),
    /// A request of an upstream server, which requires the client's response.
    Question(Question),
}

/// A request of an upstream server to the client.
#[derive(Debug)]
pub struct Question {
    /// The method of the request, such as `elicitation/create`.
    pub method: String,
    /// The parameters of the request.
    pub params: Box<RawValue>,
    /// The channel for the client's response.
    pub reply: oneshot::Sender<Result<Value, RpcError>>,
}

/// The properties of a client during one request.
#[derive(Debug, Clone)]
pub struct Requester {
    /// The ID of the session, or a unique ID for a request without a session.
    pub owner: Uuid,
    /// The negotiated revision of MCP.
    pub version: ProtocolVersion,
    /// The capabilities that the client declares (`ClientCapabilities`).
    pub capabilities: Arc<Map<String, Value>>,
    /// The lowest level of log messages that the client wants.
    pub log_level: LogThreshold,
    /// The decoded headers `mcp-param-*`, which repeat parameters of the request, by name; `None`
    /// unless the request came over HTTP in a revision that has these headers.
    pub param_headers: Option<Arc<HashMap<String, String>>>,
    /// Whether the client can receive messages before the result.
    pub can_stream: bool,
}

/// The lowest level of log messages that a client wants. May change while a request runs.
#[derive(Debug, Clone)]
pub struct LogThreshold(Arc<AtomicU8>);

impl LogThreshold {
    const NO_LEVEL: u8 = u8::MAX;

    /// Creates a threshold with the lowest level `level`. If `None`, no message passes the
    /// threshold.
    pub fn new(level: Option<McpLogLevel>) -> Self {
        let level = level.map_or(Self::NO_LEVEL, |level| level as u8);
        Self(Arc::new(AtomicU8::new(level)))
    }

    /// Changes the lowest level.
    pub fn set(&self, level: McpLogLevel) {
        self.0.store(level as u8, Ordering::Relaxed);
    }

    pub(crate) fn admits(&self, level: McpLogLevel) -> bool {
        level as u8 >= self.0.load(Ordering::Relaxed)
    }
}

/// The link from one request back to its client.
#[derive(Debug)]
pub struct ClientLink {
    /// The client that made the request.
    pub requester: Requester,
    messages: mpsc::Sender<ClientMessage>,
    progress_token: Option<Box<RawValue>>,
    /// The lowest log level that the request sets in its `_meta` (MCP 2026-07-28).
    request_level: Option<Box<RawValue>>,
    /// The request's parameters for the upstream server, without the members of `_meta` that are
    /// meant for the sidecar alone.
    params: Members,
    /// The trace context in the request's `_meta`.
    meta_trace: Option<TraceContext>,
    /// The trace context in which the sidecar handles the request.
    trace: OnceLock<TraceContext>,
}

/// The parameters of a client's `tools/call` as an upstream server gets them. The members keep the
/// client's order and text, except the tool's name, the arguments and, if the trace context differs
/// from the client's, `_meta`.
pub(crate) struct ForwardedCall<'a> {
    params: &'a Members,
    name: &'a str,
    arguments: &'a JsonObject,
    meta: ForwardedMeta,
}

/// The `_meta` of a forwarded call.
enum ForwardedMeta {
    /// The `_meta` of the request, unchanged.
    Unchanged,
    /// A `_meta` in place of the request's, or no `_meta` if `None`.
    Replaced(Option<Box<RawValue>>),
}

impl Serialize for ForwardedCall<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut params = serializer.serialize_map(None)?;
        for (key, value) in self.params {
            match (key.as_str(), &self.meta) {
                ("name", _) => params.serialize_entry(key, self.name)?,
                ("arguments", _) => params.serialize_entry(key, self.arguments)?,
                ("_meta", ForwardedMeta::Replaced(_)) => {}
                _ => params.serialize_entry(key, value)?,
            }
        }
        if !self.params.contains_key("arguments") {
            params.serialize_entry("arguments", self.arguments)?;
        }
        if let ForwardedMeta::Replaced(Some(meta)) = &self.meta {
            params.serialize_entry("_meta", meta)?;
        }
        params.end()
    }
}

impl ClientLink {
    /// Returns the link of a client with these capabilities, for a `tools/call` with these
    /// parameters.
    #[cfg(test)]
    pub(crate) fn for_test(params: &str, capabilities: Value) -> Arc<Self> {
        let requester = Requester {
            owner: Uuid::new_v4(),
            version: ProtocolVersion::V2025_11_25,
            capabilities: Arc::new(serde_json::from_value(capabilities).unwrap()),
            log_level: LogThreshold::new(None),
            param_headers: None,
            can_stream: false,
        };
        let request = message::Request {
            id: message::raw(&1).unwrap(),
            method: "tools/call".to_owned(),
            params: serde_json::from_str(params).unwrap(),
        };
        Self::new(requester, &request).0
    }

    /// Creates the link of a request, and the receiver of its messages.
    pub fn new(
        requester: Requester,
        request: &message::Request,
    ) -> (Arc<Self>, mpsc::Receiver<ClientMessage>) {
        let (messages, receiver) = mpsc::channel(MAX_WAITING_MESSAGES);
        let mut meta = request.meta();
        // The progress token is stored, because each progress notification repeats it.
        let progress_token = meta
            .shift_remove("progressToken")
            .filter(|token| token.get() != "null" && token.get().len() <= MAX_ID_BYTES);
        let request_level = meta.shift_remove(LOG_LEVEL_KEY);
        let meta_trace = parse_trace(&meta);
        // All remaining keys that MCP reserves in `_meta` are removed, because they are meant for
        // the sidecar alone.
        meta.retain(|key, _| !key.starts_with(RESERVED_META));
        let mut params = request.params.clone();
        params.shift_remove("_meta");
        if let (false, Ok(meta)) = (meta.is_empty(), message::raw(&meta)) {
            params.insert("_meta".to_owned(), meta);
        }
        let link = Self {
            requester,
            messages,
            progress_token,
            request_level,
            params,
            meta_trace,
            trace: OnceLock::new(),
        };
        (Arc::new(link), receiver)
    }

    /// Returns the request's parameters for an upstream server in the trace context `trace`, with
    /// the members in `replacements` replaced. If `trace` is the client's own trace context,
    /// `_meta` is forwarded unchanged.
    pub fn params_with_trace(
        &self,
        trace: Option<&TraceContext>,
        replacements: impl IntoIterator<Item = (&'static str, Box<RawValue>)>,
    ) -> Members {
        let mut params = self.params.clone();
        for (key, value) in replacements {
            params.insert(key.to_owned(), value);
        }
        if let Some(meta) = self.meta_with_trace(trace) {
            params.insert("_meta".to_owned(), meta);
        }
        params
    }

    /// Returns the parameters of the client's `tools/call` for an upstream server, like
    /// [`params_with_trace`](Self::params_with_trace). For an approved call, returns only the
    /// parameters that the approval covers ([`forwarded_params`](Self::forwarded_params)) and the
    /// trace context.
    pub(crate) fn forwarded_call<'a>(
        &'a self,
        trace: Option<&TraceContext>,
        name: &'a str,
        arguments: &'a JsonObject,
        is_approved: bool,
    ) -> ForwardedCall<'a> {
        let meta = if is_approved {
            let trace = trace.and_then(|trace| message::raw(&trace.to_meta()).ok());
            ForwardedMeta::Replaced(trace)
        } else {
            let changed_meta = self.meta_with_trace(trace);
            changed_meta.map_or(ForwardedMeta::Unchanged, |meta| {
                ForwardedMeta::Replaced(Some(meta))
            })
        };
        ForwardedCall {
            params: &self.params,
            name,
            arguments,
            meta,
        }
    }

    /// Returns the request's `_meta` in the trace context `trace`, or `None` if `trace` is the
    /// client's own.
    fn meta_with_trace(&self, trace: Option<&TraceContext>) -> Option<Box<RawValue>> {
        let trace = trace.filter(|trace| Some(*trace) != self.meta_trace.as_ref())?;
        let mut meta: Members = self
            .params
            .get("_meta")
            .and_then(|meta| serde_json::from_str(meta.get()).ok())
            .unwrap_or_default();
        meta.shift_remove(TRACE_KEYS[1]);
        for (key, value) in trace.to_meta() {
            if let Ok(value) = message::raw(&value) {
                meta.insert(key, value);
            }
        }
        message::raw(&meta).ok()
    }

    /// Returns the trace context in the request's `_meta`.
    pub fn meta_trace(&self) -> Option<&TraceContext> {
        self.meta_trace.as_ref()
    }

    /// Returns the trace context in which the request is handled.
    pub fn trace(&self) -> Option<&TraceContext> {
        self.trace.get()
    }

    /// Sets the trace context in which the request is handled.
    pub fn set_trace(&self, trace: Option<TraceContext>) {
        if let Some(trace) = trace {
            // The trace context is set once, before any request is forwarded.
            let _ = self.trace.set(trace);
        }
    }

    /// Returns the options for forwarding the request to an upstream server.
    pub fn options(&self) -> RequestOptions {
        let mut options = RequestOptions::default();
        options.capabilities = Some((*self.requester.capabilities).clone());
        options.return_input_requests = self.requester.version.supports(Feature::RequestMetadata);
        if let Some(level) = &self.request_level
            && let Ok(level) = serde_json::from_str(level.get())
        {
            options.meta.insert(LOG_LEVEL_KEY.to_owned(), level);
        }
        if let (Some(token), true) = (self.progress_token.clone(), self.requester.can_stream) {
            let messages = self.messages.clone();
            options =
                options.on_progress(move |progress| send_progress(&messages, &token, &progress));
        }
        options
    }

    /// Sends a progress notification, if the client requested progress.
    pub(crate) fn forward_progress(&self, progress: &ProgressNotification) {
        if let (Some(token), true) = (&self.progress_token, self.requester.can_stream) {
            send_progress(&self.messages, token, progress);
        }
    }

    /// Returns a digest of the parameters that an upstream server gets in addition to the tool's
    /// name and arguments, except the trace context; `None` if there are no such parameters.
    pub fn params_digest(&self) -> Option<String> {
        let params = self.further_params();
        let text = (!params.is_empty()).then(|| serde_json::to_string(&params).ok())?;
        text.map(|text| sha256_hex(&text))
    }

    /// Returns what an upstream server gets from the client with a call that needs approval, in
    /// addition to the tool's name and arguments: the client's capabilities, the request's log
    /// level, and all parameters of the request except `_meta`. The client's own `_meta` is not
    /// forwarded with a call that needs approval, because clients put values into `_meta` that
    /// differ for each request, so that no repeated call would match the approval.
    ///
    /// # Errors
    /// `invalid_input` if an object has two members of one name: a person would see one of them,
    /// and the server might use the other.
    pub(crate) fn forwarded_params(&self) -> Result<Option<ForwardedParameters>, ToolFailure> {
        let mut meta = Members::new();
        if let Some(level) = &self.request_level {
            meta.insert(LOG_LEVEL_KEY.to_owned(), level.clone());
        }
        let capabilities = &self.requester.capabilities;
        if !capabilities.is_empty() {
            let capabilities = message::raw(&**capabilities).map_err(|_| unclear_params_error())?;
            meta.insert(CLIENT_CAPABILITIES.to_owned(), capabilities);
        }
        let mut params = self.further_params();
        params.shift_remove("_meta");
        if !meta.is_empty() {
            let raw_meta = message::raw(&meta).map_err(|_| unclear_params_error())?;
            params.insert("_meta".to_owned(), raw_meta);
        }
        if params.is_empty() {
            return Ok(None);
        }
        let text = serde_json::to_string(&params).map_err(|_| unclear_params_error())?;
        let whole: WholeValue = serde_json::from_str(&text).map_err(|_| unclear_params_error())?;
        if whole.is_ambiguous {
            return Err(unclear_params_error());
        }
        Ok(Some(ForwardedParameters {
            parameters: whole.value,
            digest: sha256_hex(&text),
        }))
    }

    /// Returns the parameters that an upstream server gets in addition to the tool's name and
    /// arguments, without the trace context.
    fn further_params(&self) -> Members {
        let params = self.params.iter().filter_map(|(key, value)| {
            let value = match key.as_str() {
                "name" | "arguments" => return None,
                "_meta" => remove_trace(value, self.meta_trace.as_ref())?,
                _ => value.clone(),
            };
            Some((key.clone(), value))
        });
        params.collect()
    }

    /// Forwards a log message, if the client wants its level.
    pub(crate) fn forward_log(&self, params: &RawValue) {
        let level = parse_level(params);
        let is_logged = match &self.request_level {
            Some(request_level) => serde_json::from_str::<McpLogLevel>(request_level.get())
                .is_ok_and(|min_level| level >= Some(min_level)),
            None => level.is_some_and(|level| self.requester.log_level.admits(level)),
        };
        if is_logged && self.requester.can_stream {
            let notification = message::outgoing(None, "notifications/message", &params);
            let _ = self.messages.try_send(ClientMessage::Notice(notification));
        }
    }

    /// Sends a request of an upstream server to the client, and waits for the response.
    pub(crate) async fn send_request(
        &self,
        method: &str,
        params: Box<RawValue>,
    ) -> Result<Value, RpcError> {
        let capability = required_capability(method).filter(|_| self.requester.can_stream);
        let capabilities = &self.requester.capabilities;
        if capability.is_none_or(|capability| !capabilities.contains_key(capability)) {
            return Err(unsupported_method_error(method));
        }
        let (reply, response) = oneshot::channel();
        let question = Question {
            method: method.to_owned(),
            params,
            reply,
        };
        let text = "The MCP client that made the call has disconnected";
        let disconnected_error = || RpcError::new(message::INTERNAL_ERROR, text);
        let result = self.messages.send(ClientMessage::Question(question)).await;
        result.map_err(|_| disconnected_error())?;
        response.await.map_err(|_| disconnected_error())?
    }

    /// Returns whether the client supports elicitation with forms.
    pub(crate) fn supports_forms(&self) -> bool {
        let modes = self
            .requester
            .capabilities
            .get("elicitation")
            .and_then(Value::as_object);
        let has_forms = modes.is_some_and(|modes| modes.is_empty() || modes.contains_key("form"));
        has_forms && self.requester.can_stream
    }
}

fn unclear_params_error() -> ToolFailure {
    ToolFailure::invalid_input(
        "The call needs approval, but an object in its parameters has two members with the same \
         name: use each name once",
    )
}

/// Sends a progress notification without waiting: a slow client misses some notifications.
fn send_progress(
    messages: &mpsc::Sender<ClientMessage>,
    token: &RawValue,
    progress: &ProgressNotification,
) {
    let params = progress_params(token, progress);
    let notification = message::outgoing(None, "notifications/progress", &params);
    let _ = messages.try_send(ClientMessage::Notice(notification));
}

/// The keys of the trace context in `_meta`.
const TRACE_KEYS: [&str; 2] = ["traceparent", "tracestate"];

fn parse_trace(meta: &Members) -> Option<TraceContext> {
    let [parent, state] = TRACE_KEYS.map(|key| {
        let raw = meta.get(key)?;
        serde_json::from_str::<String>(raw.get()).ok()
    });
    TraceContext::parse(&parent?, state.as_deref())
}

/// Returns `_meta` without the members of the trace context, or `None` if `_meta` has no other
/// members. A `traceparent` or `tracestate` whose text differs from that in `trace` remains.
fn remove_trace(meta: &RawValue, trace: Option<&TraceContext>) -> Option<Box<RawValue>> {
    let mut meta: Members = serde_json::from_str(meta.get()).ok()?;
    for (key, value) in trace.map(TraceContext::to_meta).into_iter().flatten() {
        let text = meta.get(&key).map(|text| text.get());
        if text == Some(value.to_string().as_str()) {
            meta.shift_remove(&key);
        }
    }
    (!meta.is_empty()).then(|| message::raw(&meta).ok())?
}

/// Returns the client capability that a method requires.
fn required_capability(method: &str) -> Option<&'static str> {
    match method {
        "sampling/createMessage" => Some("sampling"),
        "elicitation/create" => Some("elicitation"),
        "roots/list" => Some("roots"),
        _ => None,
    }
}

pub(crate) fn unsupported_method_error(method: &str) -> RpcError {
    let message = format!("The client that made the call does not support {method}");
    RpcError::new(METHOD_NOT_FOUND, message)
}

/// Returns the level of a log message, or `None` if the level is invalid.
pub(crate) fn parse_level(params: &RawValue) -> Option<McpLogLevel> {
    #[derive(serde::Deserialize)]
    struct LogParams {
        level: McpLogLevel,
    }
    let params: Result<LogParams, _> = serde_json::from_str(params.get());
    params.ok().map(|params| params.level)
}

fn progress_params(token: &RawValue, progress: &ProgressNotification) -> Value {
    /// Writes whole numbers as integers, as most servers do.
    fn to_json_number(value: f64) -> Value {
        const MAX_EXACT_INTEGER: f64 = 9_007_199_254_740_992.0;
        if value.fract() == 0.0 && value.abs() < MAX_EXACT_INTEGER {
            #[expect(clippy::cast_possible_truncation, reason = "whole, and small enough")]
            return json!(value as i64);
        }
        json!(value)
    }
    let mut params = json!({"progressToken": token, "progress": to_json_number(progress.progress)});
    if let Some(total) = progress.total {
        params["total"] = to_json_number(total);
    }
    if let Some(message) = &progress.message {
        params["message"] = json!(message);
    }
    params
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    fn arguments() -> JsonObject {
        json!({"n": 2}).as_object().cloned().unwrap()
    }

    /// Returns the forwarded parameters of a `tools/call` with these parameters.
    fn forwarded(params: &str, trace: Option<&TraceContext>) -> String {
        let link = ClientLink::for_test(params, json!({}));
        serde_json::to_string(&link.forwarded_call(trace, "roll", &arguments(), false)).unwrap()
    }

    #[test]
    fn an_approved_call_has_only_what_the_approver_saw() {
        let params = format!(
            r#"{{"name":"far_roll","task":{{"ttl":1e3}},"_meta":{{"a":1,"traceparent":"{PARENT}","tracestate":"pay=1"}}}}"#
        );
        let link = ClientLink::for_test(&params, json!({"roots": {}}));
        let trace = link.meta_trace().cloned().map(TraceContext::without_state);
        let arguments = arguments();
        let call = link.forwarded_call(trace.as_ref(), "roll", &arguments, true);
        let expected = format!(
            r#"{{"name":"roll","task":{{"ttl":1e3}},"arguments":{{"n":2}},"_meta":{{"traceparent":"{PARENT}"}}}}"#
        );
        assert_eq!(serde_json::to_string(&call).unwrap(), expected);
        let shown = link.forwarded_params().unwrap().unwrap().parameters;
        let capabilities = json!({"io.modelcontextprotocol/clientCapabilities": {"roots": {}}});
        assert_eq!(shown, json!({"task": {"ttl": 1e3}, "_meta": capabilities}));
    }

    /// Returns combinations of everything that a client can put into a `tools/call`.
    fn generated() -> Vec<(String, Value)> {
        let meta = [
            None,
            Some("{}".to_owned()),
            Some(r#"{"com.bank/amount":"1"}"#.to_owned()),
            Some(r#"{"progressToken":7}"#.to_owned()),
            Some(r#"{"io.modelcontextprotocol/logLevel":"debug"}"#.to_owned()),
            Some(r#"{"io.modelcontextprotocol/logLevel":"info"}"#.to_owned()),
            Some(r#"{"io.modelcontextprotocol/other":1}"#.to_owned()),
            Some(format!(r#"{{"traceparent":"{PARENT}"}}"#)),
            Some(format!(
                r#"{{"traceparent":"{PARENT}","tracestate":"pay=1"}}"#
            )),
            Some(format!(r#"{{"traceparent":"01{}-pay=1"}}"#, &PARENT[2..])),
            Some(r#"{"traceparent":"pay=1"}"#.to_owned()),
            Some(r#"{"tracestate":"pay=1","baggage":"pay=1"}"#.to_owned()),
        ];
        let further = [
            "",
            r#","sudo":true"#,
            r#","sudo":false"#,
            r#","sudo":1.0"#,
            r#","sudo":1"#,
            r#","sudo":9007199254740993"#,
            r#","sudo":9007199254740992"#,
            r#","task":{"ttl":1}"#,
            r#","task":{"ttl":2}"#,
            r#","inputResponses":{"a":{"action":"accept"}},"requestState":"x""#,
            r#","inputResponses":{"a":{"action":"decline"}},"requestState":"x""#,
            r#","requestState":"x""#,
        ];
        let capabilities = [
            json!({}),
            json!({"elicitation": {}}),
            json!({"experimental": {"pay": 1}}),
            json!({"experimental": {"pay": 2}}),
        ];
        let mut all = Vec::new();
        for meta in &meta {
            for further in further {
                for capabilities in &capabilities {
                    let member = meta
                        .as_ref()
                        .map_or_else(String::new, |meta| format!(r#","_meta":{meta}"#));
                    let params = format!(r#"{{"name":"far_roll"{further}{member}}}"#);
                    all.push((params, capabilities.clone()));
                }
            }
        }
        all
    }

    #[test]
    fn calls_that_differ_in_forwarded_bytes_differ_in_their_approval() {
        let mut by_digest = HashMap::new();
        for (params, capabilities) in generated() {
            let link = ClientLink::for_test(&params, capabilities);
            let forwarded = link.forwarded_params().unwrap();
            let digest = forwarded.map(|forwarded| forwarded.digest);
            let options = link.options();
            let trace = link.meta_trace().cloned().map(TraceContext::without_state);
            let arguments = arguments();
            let call = link.forwarded_call(trace.as_ref(), "roll", &arguments, true);
            let call = serde_json::to_string(&call).unwrap();
            // Only the trace context differs for each call.
            let call = match &trace {
                None => call,
                Some(trace) => {
                    let meta = json!(trace.to_meta());
                    assert_eq!(meta.as_object().map(serde_json::Map::len), Some(1));
                    call.replace(&format!(r#","_meta":{meta}"#), "")
                }
            };
            let bytes = format!("{call} {:?} {:?}", options.meta, options.capabilities);
            let known = by_digest.entry(digest).or_insert_with(|| bytes.clone());
            assert_eq!(*known, bytes, "{params}");
        }
        let distinct: std::collections::HashSet<_> = by_digest.values().collect();
        assert_eq!(distinct.len(), by_digest.len());
    }

    #[test]
    fn two_members_of_one_name_cannot_be_approved() {
        let link = ClientLink::for_test(r#"{"name":"far_roll","sudo":{"a":1,"a":2}}"#, json!({}));
        let failure = link.forwarded_params().unwrap_err();
        assert_eq!(failure.code, pillion_core::tool::ErrorCode::InvalidInput);
    }

    #[test]
    fn a_trace_context_with_other_text_is_part_of_the_variant() {
        let variant = |parent: &str| {
            let params = format!(r#"{{"name":"x","_meta":{{"traceparent":"{parent}"}}}}"#);
            ClientLink::for_test(&params, json!({})).params_digest()
        };
        assert_eq!(variant(PARENT), None);
        assert!(variant(&format!("01{}-pay=1", &PARENT[2..])).is_some());
        assert!(variant("pay=1").is_some());
    }

    #[test]
    fn a_forwarded_call_keeps_what_the_client_wrote() {
        let params = r#"{"_meta":{"a":1.50},"name":"far_roll","task":{"ttl":1e3}}"#;
        let expected =
            r#"{"name":"roll","task":{"ttl":1e3},"_meta":{"a":1.50},"arguments":{"n":2}}"#;
        assert_eq!(forwarded(params, None), expected);
        let trace = TraceContext::parse(PARENT, None).unwrap();
        let traced = forwarded(r#"{"arguments":{"n":1},"name":"far_roll"}"#, Some(&trace));
        let meta = format!(r#"{{"traceparent":"{PARENT}"}}"#);
        let expected = format!(r#"{{"arguments":{{"n":2}},"name":"roll","_meta":{meta}}}"#);
        assert_eq!(traced, expected);
    }
}
