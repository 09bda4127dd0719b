use std::collections::{HashMap, HashSet};
use std::fmt;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::time::Duration;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::stream;
use http::header::CONTENT_TYPE;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::{Dialect, Endpoint};
use crate::{Recorder, Reply};

/// The handlers of a fake server, by method.
pub(super) type Handlers = HashMap<String, Box<dyn Fn(&Value) -> Reply + Send + Sync>>;

/// The state of a fake server.
pub(super) struct Server {
    pub(super) dialect: Dialect,
    pub(super) requests: Recorder,
    address: SocketAddr,
    handlers: Handlers,
    /// Whether sessions have a GET stream.
    pub(super) listens: bool,
    /// The delay of the HTTP status 202 for a message whose response arrives on a stream.
    pub(super) accepts_after: Duration,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    opened: usize,
    accepted: usize,
    sessions: HashSet<String>,
    streams: HashMap<String, mpsc::UnboundedSender<Bytes>>,
    /// The sessions whose streams stay open but no longer accept messages.
    forgotten: HashSet<String>,
}

impl Server {
    pub(super) fn new(
        dialect: Dialect,
        address: SocketAddr,
        handlers: Handlers,
        requests: Recorder,
    ) -> Self {
        Self {
            dialect,
            requests,
            address,
            handlers,
            listens: false,
            accepts_after: Duration::ZERO,
            state: Mutex::default(),
        }
    }

    /// Returns the reply to a request.
    pub(super) fn reply(&self, method: &str, params: &Value) -> Reply {
        if let Some(handler) = self.handlers.get(method) {
            return handler(params);
        }
        match method {
            "server/discover" if self.dialect == Dialect::Stateless => Reply::result(&json!({
                "resultType": "complete",
                "supportedVersions": ["2026-07-28"],
                "capabilities": {"tools": {}},
                "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "fake", "version": "1"}},
                "ttlMs": 0,
                "cacheScope": "private",
            })),
            "initialize" if self.has_handshake() => Reply::result(&json!({
                "protocolVersion": params["protocolVersion"],
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "fake", "version": "1"},
            })),
            "ping" => Reply::raw_result("{}"),
            "tools/list" => Reply::result(&json!({"tools": [{
                "name": "roll",
                "description": "Rolls dice",
                "inputSchema": {"type": "object", "properties": {"dice": {"type": "string"}}},
            }]})),
            "tools/call" => Reply::raw_result(r#"{"total":15,"rolls":[15]}"#),
            _ => Reply::error(-32601, "Method not found"),
        }
    }

    fn has_handshake(&self) -> bool {
        !matches!(self.dialect, Dialect::PostSse | Dialect::Stateless)
    }

    pub(super) fn open_session(&self) -> String {
        let mut state = self.state.lock().unwrap();
        state.opened += 1;
        let session = format!("session-{}", state.opened);
        state.sessions.insert(session.clone());
        session
    }

    pub(super) fn knows_session(&self, session: &str) -> bool {
        self.state.lock().unwrap().sessions.contains(session)
    }

    pub(super) fn end_session(&self, session: &str) {
        self.state.lock().unwrap().sessions.remove(session);
    }

    pub(super) fn forget_sessions(&self) {
        let mut state = self.state.lock().unwrap();
        state.sessions.clear();
        let streams: Vec<String> = state.streams.keys().cloned().collect();
        state.forgotten.extend(streams);
    }

    pub(super) fn has_forgotten(&self, stream: &str) -> bool {
        self.state.lock().unwrap().forgotten.contains(stream)
    }

    pub(super) fn accept(&self) {
        self.state.lock().unwrap().accepted += 1;
    }

    pub(super) fn accepted(&self) -> usize {
        self.state.lock().unwrap().accepted
    }

    /// Opens an event stream. With the legacy SSE transport, the stream starts with the endpoint.
    pub(super) fn open_stream(&self) -> mpsc::UnboundedReceiver<Bytes> {
        self.open_stream_with(|id| {
            let relative = format!("/messages?session={id}");
            let endpoint = match &self.dialect {
                Dialect::LegacySse(Endpoint::Relative) => relative,
                Dialect::LegacySse(Endpoint::Absolute) => {
                    format!("http://{}{relative}", self.address)
                }
                Dialect::LegacySse(Endpoint::Text(text)) => text.clone(),
                _ => return ": welcome\n\n".to_owned(),
            };
            format!("event: endpoint\ndata: {endpoint}\n\n")
        })
    }

    /// Opens an event stream that starts with `first`, given the ID of the stream.
    pub(super) fn open_stream_with(
        &self,
        first: impl FnOnce(&str) -> String,
    ) -> mpsc::UnboundedReceiver<Bytes> {
        let (sender, receiver) = unlimited();
        let mut state = self.state.lock().unwrap();
        state.opened += 1;
        let id = state.opened.to_string();
        sender.send(first(&id).into()).unwrap();
        state.streams.insert(id, sender);
        receiver
    }

    /// Sends a message to one stream, or to all streams.
    pub(super) fn send(&self, stream: Option<&str>, message: &str) {
        let event = Bytes::from(format!("event: message\ndata: {message}\n\n"));
        let state = self.state.lock().unwrap();
        for (id, sender) in &state.streams {
            if stream.is_none_or(|requested| requested == id) {
                // Sending fails only if the client has disconnected.
                let _ = sender.send(event.clone());
            }
        }
    }

    pub(super) fn push(&self, bytes: Vec<u8>) {
        let bytes = Bytes::from(bytes);
        for sender in self.state.lock().unwrap().streams.values() {
            let _ = sender.send(bytes.clone());
        }
    }

    pub(super) fn close_streams(&self) {
        self.state.lock().unwrap().streams.clear();
    }

    pub(super) fn open_streams(&self) -> usize {
        let state = self.state.lock().unwrap();
        let open = state.streams.values().filter(|sender| !sender.is_closed());
        open.count()
    }
}

/// Returns a response that sends the bytes of an open stream.
pub(super) fn event_stream(events: mpsc::UnboundedReceiver<Bytes>) -> Response {
    let events = stream::unfold(events, async |mut events| {
        let bytes = events.recv().await?;
        Some((Ok::<_, std::convert::Infallible>(bytes), events))
    });
    let headers = [(CONTENT_TYPE, "text/event-stream; charset=utf-8")];
    (headers, Body::from_stream(events)).into_response()
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server")
            .field("dialect", &self.dialect)
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "a test sends as much as it wants, and a client that reads nothing is one of its cases"
)]
fn unlimited<T>() -> (mpsc::UnboundedSender<T>, mpsc::UnboundedReceiver<T>) {
    mpsc::unbounded_channel()
}
