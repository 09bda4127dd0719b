//! The way from a request that runs back to the client that made it: notices of how far it
//! has come, and questions that a server below has.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};

use axum::body::Bytes;
use parking_lot::Mutex;
use pillion_core::digest::sha256_hex;
use pillion_core::mcp::{
    Feature, LogLevel, Progress, ProtocolVersion, RESERVED_META, RequestOptions, RpcError,
};
use pillion_core::tool::TraceContext;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use tokio::sync::{mpsc, oneshot};
use uuid::Uuid;

use super::message::{self, LOG_LEVEL, METHOD_NOT_FOUND, Members};

/// How many notices may wait for a client that does not keep up; then some are left out.
const MOST_WAITING: usize = 256;

/// What a running request has to say before its result.
#[derive(Debug)]
pub(crate) enum Said {
    /// A whole message.
    Notice(Bytes),
    Question(Question),
}

/// Something that a server below wants from the client.
#[derive(Debug)]
pub(crate) struct Question {
    pub(crate) method: String,
    pub(crate) params: Box<RawValue>,
    pub(crate) reply: oneshot::Sender<Result<Value, RpcError>>,
}

/// What is known of the client for the time of one request.
#[derive(Debug, Clone)]
pub(crate) struct Requester {
    /// Whose request it is: the session's, or the request's own where there is none.
    pub(crate) owner: Uuid,
    pub(crate) version: ProtocolVersion,
    /// `ClientCapabilities`.
    pub(crate) capabilities: Arc<Map<String, Value>>,
    pub(crate) log_level: LogThreshold,
    /// The headers that repeat parameters (`mcp-param-*`), by their names, decoded, if the
    /// request came over HTTP in a revision that has them.
    pub(crate) param_headers: Option<Arc<HashMap<String, String>>>,
    /// Whether there is a way to say anything but the result.
    pub(crate) hears: bool,
}

/// From which level on a client wants log messages; it may change while a request runs.
#[derive(Debug, Clone)]
pub(crate) struct LogThreshold(Arc<AtomicU8>);

impl LogThreshold {
    const NONE: u8 = u8::MAX;

    pub(crate) fn new(level: Option<LogLevel>) -> Self {
        let level = level.map_or(Self::NONE, |level| level as u8);
        Self(Arc::new(AtomicU8::new(level)))
    }

    pub(crate) fn set(&self, level: LogLevel) {
        self.0.store(level as u8, Ordering::Relaxed);
    }

    pub(crate) fn admits(&self, level: LogLevel) -> bool {
        level as u8 >= self.0.load(Ordering::Relaxed)
    }
}

/// The result of a server below, or its error, as it wrote it.
pub(crate) type Verbatim = Result<Box<RawValue>, RpcError>;

/// One request's way back.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) requester: Requester,
    said: mpsc::Sender<Said>,
    progress_token: Option<Box<RawValue>>,
    /// The level that the request itself names (MCP 2026-07-28).
    own_level: Option<Box<RawValue>>,
    /// The parameters that a server below gets beside the tool's name and arguments.
    others: Members,
    /// Where the client says that its request stands in a trace.
    trace_of_meta: Option<TraceContext>,
    /// Where the request stands in a trace.
    trace: OnceLock<TraceContext>,
    verbatim: Mutex<Option<Verbatim>>,
}

impl Link {
    /// The link of a request, and where what is said through it comes out.
    pub(crate) fn new(
        requester: Requester,
        request: &message::Request,
    ) -> (Arc<Self>, mpsc::Receiver<Said>) {
        let (said, comes_out) = mpsc::channel(MOST_WAITING);
        let mut meta = request.meta();
        let progress_token = meta.shift_remove("progressToken");
        let own_level = meta.shift_remove(LOG_LEVEL);
        let trace_of_meta = trace_of(&meta);
        // The rest of what the specification defines is said to us alone.
        meta.retain(|key, _| !key.starts_with(RESERVED_META));
        let mut others = request.params.clone();
        others.shift_remove("_meta");
        if let (false, Ok(meta)) = (meta.is_empty(), message::raw(&meta)) {
            others.insert("_meta".to_owned(), meta);
        }
        let link = Self {
            requester,
            said,
            progress_token,
            own_level,
            others,
            trace_of_meta,
            trace: OnceLock::new(),
            verbatim: Mutex::default(),
        };
        (Arc::new(link), comes_out)
    }

    /// The request's parameters for a server below, these in place of its own.
    fn params(&self, instead: impl IntoIterator<Item = (&'static str, Box<RawValue>)>) -> Members {
        let mut params = self.others.clone();
        for (key, value) in instead {
            params.insert(key.to_owned(), value);
        }
        params
    }

    /// The same, with that place in a trace. Where it is what the client itself said, that
    /// stays as it wrote it.
    pub(crate) fn params_in(
        &self,
        trace: Option<&TraceContext>,
        instead: impl IntoIterator<Item = (&'static str, Box<RawValue>)>,
    ) -> Members {
        let mut params = self.params(instead);
        let Some(trace) = trace.filter(|trace| Some(*trace) != self.trace_of_meta.as_ref()) else {
            return params;
        };
        let meta = params.get("_meta");
        let mut meta: Members = meta
            .and_then(|meta| serde_json::from_str(meta.get()).ok())
            .unwrap_or_default();
        meta.shift_remove(TRACE_KEYS[1]);
        for (key, value) in trace.to_meta() {
            if let Ok(value) = message::raw(&value) {
                meta.insert(key, value);
            }
        }
        if let Ok(meta) = message::raw(&meta) {
            params.insert("_meta".to_owned(), meta);
        }
        params
    }

    /// Where the client says that its request stands in a trace.
    pub(crate) fn trace_of_meta(&self) -> Option<&TraceContext> {
        self.trace_of_meta.as_ref()
    }

    /// Where the request stands in a trace.
    pub(crate) fn trace(&self) -> Option<&TraceContext> {
        self.trace.get()
    }

    pub(crate) fn set_trace(&self, trace: Option<TraceContext>) {
        if let Some(trace) = trace {
            // Set once, before anything is asked of others.
            let _ = self.trace.set(trace);
        }
    }

    /// How the request is passed on to a server below.
    pub(crate) fn options(&self) -> RequestOptions {
        let mut options = RequestOptions::default();
        let capabilities = (*self.requester.capabilities).clone();
        options = options.capabilities(capabilities);
        if self.requester.version.supports(Feature::RequestMetadata) {
            options = options.hand_back_questions();
        }
        if let Some(level) = &self.own_level
            && let Ok(level) = serde_json::from_str(level.get())
        {
            options = options.meta(LOG_LEVEL, level);
        }
        if let (Some(token), true) = (self.progress_token.clone(), self.requester.hears) {
            let said = self.said.clone();
            options = options.on_progress(move |progress| tell(&said, &token, &progress));
        }
        options
    }

    /// Tells the client how far its request has come, if it wants to know.
    pub(crate) fn progress(&self, progress: &Progress) {
        if let (Some(token), true) = (&self.progress_token, self.requester.hears) {
            tell(&self.said, token, progress);
        }
    }

    /// What the request says to a server below beside the tool's name and arguments, as a
    /// digest; none where it says nothing. The trace is another each time, and changes nothing.
    pub(crate) fn variant(&self) -> Option<String> {
        let others = self.others.iter();
        let others: Members = others
            .filter(|(key, _)| !["name", "arguments"].contains(&key.as_str()))
            .filter_map(|(key, value)| {
                let value = match key.as_str() {
                    "_meta" => without_trace(value)?,
                    _ => value.clone(),
                };
                Some((key.clone(), value))
            })
            .collect();
        let said = (!others.is_empty()).then(|| serde_json::to_string(&others).ok())?;
        said.map(|said| sha256_hex(&said))
    }

    /// Passes a log message on, if the client wants it.
    pub(crate) fn log(&self, params: &RawValue) {
        let level = level_of(params);
        let wanted = match &self.own_level {
            Some(own) => {
                serde_json::from_str::<LogLevel>(own.get()).is_ok_and(|own| level >= Some(own))
            }
            None => level.is_some_and(|level| self.requester.log_level.admits(level)),
        };
        if wanted && self.requester.hears {
            let notice = message::outgoing(None, "notifications/message", &params);
            let _ = self.said.try_send(Said::Notice(notice));
        }
    }

    /// Asks the client what a server below wants to know.
    pub(crate) async fn ask(&self, method: &str, params: Box<RawValue>) -> Result<Value, RpcError> {
        let Some(capability) = capability_for(method).filter(|_| self.requester.hears) else {
            return Err(refusal(method));
        };
        if !self.requester.capabilities.contains_key(capability) {
            return Err(refusal(method));
        }
        let (reply, answer) = oneshot::channel();
        let question = Question {
            method: method.to_owned(),
            params,
            reply,
        };
        let gone = || RpcError::new(message::INTERNAL_ERROR, "The client is gone");
        let asked = self.said.send(Said::Question(question)).await;
        asked.map_err(|_| gone())?;
        answer.await.map_err(|_| gone())?
    }

    /// Whether the client asks its user to fill in forms.
    pub(crate) fn takes_forms(&self) -> bool {
        let elicitation = self.requester.capabilities.get("elicitation");
        let elicitation = elicitation.and_then(Value::as_object);
        let forms = elicitation.is_some_and(|modes| modes.is_empty() || modes.contains_key("form"));
        forms && self.requester.hears
    }

    /// Keeps what a server below answered, for the client to get it as it is.
    pub(crate) fn deposit(&self, verbatim: Verbatim) {
        *self.verbatim.lock() = Some(verbatim);
    }

    pub(crate) fn take_deposit(&self) -> Option<Verbatim> {
        self.verbatim.lock().take()
    }
}

/// A client that does not keep up misses some; nobody is held up.
fn tell(said: &mpsc::Sender<Said>, token: &RawValue, progress: &Progress) {
    let params = progress_params(token, progress);
    let notice = message::outgoing(None, "notifications/progress", &params);
    let _ = said.try_send(Said::Notice(notice));
}

/// The keys of `_meta` that say where a request stands in a trace.
const TRACE_KEYS: [&str; 2] = ["traceparent", "tracestate"];

fn trace_of(meta: &Members) -> Option<TraceContext> {
    let [parent, state] = TRACE_KEYS.map(|key| {
        let raw = meta.get(key)?;
        serde_json::from_str::<String>(raw.get()).ok()
    });
    TraceContext::parse(&parent?, state.as_deref())
}

/// A `_meta` but for the trace, if there is anything else in it.
fn without_trace(meta: &RawValue) -> Option<Box<RawValue>> {
    let mut meta: Members = serde_json::from_str(meta.get()).ok()?;
    meta.retain(|key, _| !TRACE_KEYS.contains(&key.as_str()));
    if meta.is_empty() {
        return None;
    }
    message::raw(&meta).ok()
}

/// What a client must have declared to be asked this.
fn capability_for(method: &str) -> Option<&'static str> {
    match method {
        "sampling/createMessage" => Some("sampling"),
        "elicitation/create" => Some("elicitation"),
        "roots/list" => Some("roots"),
        _ => None,
    }
}

pub(crate) fn refusal(method: &str) -> RpcError {
    let message = format!("The client that made the call does not offer {method}");
    RpcError::new(METHOD_NOT_FOUND, message)
}

/// The level of a log message, as far as it is one.
pub(crate) fn level_of(params: &RawValue) -> Option<LogLevel> {
    #[derive(serde::Deserialize)]
    struct Params {
        level: LogLevel,
    }
    let params: Result<Params, _> = serde_json::from_str(params.get());
    params.ok().map(|params| params.level)
}

fn progress_params(token: &RawValue, progress: &Progress) -> Value {
    /// As most servers write them.
    fn number(value: f64) -> Value {
        const EXACT: f64 = 9_007_199_254_740_992.0;
        if value.fract() == 0.0 && value.abs() < EXACT {
            #[expect(clippy::cast_possible_truncation, reason = "whole, and small enough")]
            return json!(value as i64);
        }
        json!(value)
    }
    let mut params = json!({"progressToken": token, "progress": number(progress.progress)});
    if let Some(total) = progress.total {
        params["total"] = number(total);
    }
    if let Some(message) = &progress.message {
        params["message"] = json!(message);
    }
    params
}
