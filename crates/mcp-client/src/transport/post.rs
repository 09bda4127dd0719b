mod listener;
mod pauses;
mod resumption;
mod session_loss;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::future::Either;
use http::header::HeaderName;
use http::{HeaderMap, HeaderValue};
use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::{SerializedRequest, Transport, find_response};
use crate::http::{HttpLink, ResponseBody, ResponseReader, check_status, parse_event};
use crate::jsonrpc::{Incoming, RpcOutcome, RpcRequestId};
use crate::metadata::MirroredHeaders;
use crate::on_drop::{OnDrop, run_in_background};
use crate::peer::{OutgoingResponses, Peer};
use crate::repeat::Repeat;
use crate::{Feature, McpErrorKind, ProtocolVersion};
use listener::GetStreamListener;
use resumption::Resumption;

const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");

/// Sends every request by POST to the server's URL; the response is in the HTTP response, as JSON
/// or as an event stream. Used for Streamable HTTP, POST-SSE and plain HTTP.
pub(crate) struct PostTransport {
    connection: Arc<PostConnection>,
    listener: Mutex<Option<GetStreamListener>>,
}

/// State shared by requests, responses to the server, and the listening task.
struct PostConnection {
    link: HttpLink,
    peer: Arc<Peer>,
    session: OnceLock<HeaderValue>,
    version: OnceLock<ProtocolVersion>,
    /// The headers of every message, set after the revision was negotiated.
    message_headers: OnceLock<HeaderMap>,
    /// Whether the session has expired or was closed.
    is_closed: AtomicBool,
    /// Requests whose stream broke, by id: some servers respond to them on the listening stream.
    detached_requests: Mutex<HashMap<RpcRequestId, oneshot::Sender<RpcOutcome>>>,
}

impl PostTransport {
    pub(crate) fn new(link: HttpLink, peer: Arc<Peer>) -> Self {
        Self {
            connection: Arc::new(PostConnection {
                link,
                peer,
                session: OnceLock::new(),
                version: OnceLock::new(),
                message_headers: OnceLock::new(),
                is_closed: AtomicBool::new(false),
                detached_requests: Mutex::default(),
            }),
            listener: Mutex::default(),
        }
    }
}

impl PostConnection {
    fn has(&self, feature: Feature) -> bool {
        self.version
            .get()
            .is_some_and(|version| version.supports(feature))
    }

    /// Adds the headers of this session's requests to `extra`.
    fn headers(&self, mut extra: HeaderMap) -> HeaderMap {
        if let Some(session) = self.session.get() {
            extra.insert(SESSION_ID, session.clone());
        }
        if let Some(version) = self.version.get()
            && version.supports(Feature::ProtocolVersionHeader)
        {
            extra.insert(PROTOCOL_VERSION, HeaderValue::from_static(version.as_str()));
        }
        extra
    }

    /// Returns the headers of this session's messages.
    fn message_headers(&self) -> HeaderMap {
        match self.message_headers.get() {
            Some(headers) => headers.clone(),
            None => self.headers(self.link.message_headers()),
        }
    }

    /// Sends a message and returns the response, whatever its status.
    async fn send(
        &self,
        message: Bytes,
        mirrored: MirroredHeaders,
        repeat: Repeat,
    ) -> Result<reqwest::Response, McpErrorKind> {
        let url = &self.link.url;
        let mut headers = self.message_headers();
        for (name, value) in mirrored {
            headers.insert(name, value);
        }
        self.link.post(url, headers, message, repeat).await
    }

    /// Sends a message that has no JSON-RPC response.
    async fn post(
        &self,
        message: Bytes,
        repeat: Repeat,
    ) -> Result<reqwest::Response, McpErrorKind> {
        let response = self.send(message, MirroredHeaders::new(), repeat).await?;
        self.check_session(check_status(response).await)
    }

    /// Marks the session as closed: the next request must open another one. Returns `false` if the
    /// session was already closed.
    fn end_session(&self) -> bool {
        !self.is_closed.swap(true, Ordering::AcqRel)
    }

    /// Deletes the session on the server, if there is one (MCP 2025-11-25, "Session Management").
    async fn delete_session(&self) {
        if self.session.get().is_some() {
            self.link.delete(self.headers(HeaderMap::new())).await;
        }
    }

    async fn exchange(
        self: &Arc<Self>,
        request: SerializedRequest,
    ) -> Result<RpcOutcome, McpErrorKind> {
        let sent = self.send(request.message, request.mirrored, request.repeat);
        let response = sent.await?;
        if !response.status().is_success() {
            let rejected = self.receive_rejection(
                response,
                &request.id,
                request.opens,
                request.repeat.is_harmless(),
            );
            return Box::pin(rejected).await;
        }
        // Only the response to `initialize` may set the session id; the revision is set after that
        // response.
        if self.version.get().is_none()
            && let Some(session) = response.headers().get(&SESSION_ID)
        {
            let mut session = session.clone();
            session.set_sensitive(true);
            let _ = self.session.set(session);
        }
        let received = self.receive(response, &request.id, request.endless).await;
        received.map_err(McpErrorKind::after_acceptance)
    }

    /// Receives the response to a request that the server has accepted.
    async fn receive(
        self: &Arc<Self>,
        response: reqwest::Response,
        id: &RpcRequestId,
        is_endless: bool,
    ) -> Result<RpcOutcome, McpErrorKind> {
        let mut responses = OutgoingResponses::default();
        match self.link.read(response).await? {
            ResponseBody::Empty => Err(McpErrorKind::NoResponse),
            ResponseBody::Messages(messages) => self
                .find_response(id, messages, &mut responses)
                .ok_or(McpErrorKind::NoResponse),
            ResponseBody::Stream(mut reader) => {
                if is_endless {
                    reader.without_totals();
                }
                let read = self.read_stream(id, &mut reader, &mut responses);
                let outcome = read.await?;
                self.link.finish(reader).await;
                Ok(outcome)
            }
        }
    }

    /// Reads a stream until the response arrives, resuming the stream if possible.
    async fn read_stream(
        self: &Arc<Self>,
        id: &RpcRequestId,
        reader: &mut ResponseReader,
        responses: &mut OutgoingResponses,
    ) -> Result<RpcOutcome, McpErrorKind> {
        let mut resumption = Resumption::new(self.has(Feature::Handshake));
        loop {
            let end = match reader.next().await {
                Ok(Some(event)) => {
                    let messages = parse_event(&event);
                    if !messages.is_empty() {
                        resumption.reset_pauses();
                    }
                    if let Some(outcome) = self.find_response(id, messages, responses) {
                        return Ok(outcome);
                    }
                    continue;
                }
                Ok(None) => McpErrorKind::NoResponse,
                Err(error @ McpErrorKind::Broken(_)) => error,
                Err(error) => return Err(error),
            };
            let Some(wait) = resumption.wait(reader) else {
                return Err(end);
            };
            let answered = self.receive_on_listener(id);
            let resumed = async {
                let headers = self.headers(wait.await);
                self.check_session(self.link.get_stream(headers).await)
            };
            // Boxed, because resuming is rare and would enlarge the future of every exchange.
            let next = Box::pin(async {
                tokio::select! {
                    biased;
                    Ok(outcome) = answered => Ok(Either::Left(outcome)),
                    stream = resumed => {
                        if matches!(stream, Err(McpErrorKind::SessionExpired)) {
                            self.end_session();
                        }
                        // A rejected GET must not look like a rejected request: the server has
                        // accepted the request.
                        stream
                            .map(Either::Right)
                            .map_err(|error| McpErrorKind::ResponseLost(Box::new(error)))
                    }
                }
            });
            match next.await? {
                Either::Left(outcome) => return Ok(outcome),
                Either::Right(stream) => reader.resume(stream),
            }
        }
    }

    /// Waits for the response to `id` on the listening stream.
    async fn receive_on_listener(&self, id: &RpcRequestId) -> Result<RpcOutcome, McpErrorKind> {
        let (sender, receiver) = oneshot::channel();
        self.detached_requests.lock().insert(id.clone(), sender);
        let _guard = OnDrop::new(|| drop(self.detached_requests.lock().remove(id)));
        receiver.await.map_err(|_| McpErrorKind::StreamClosed)
    }

    /// Returns the response to `id` in `messages`. Answers requests of the server, delivers
    /// notifications, and skips other responses.
    fn find_response(
        self: &Arc<Self>,
        id: &RpcRequestId,
        messages: Vec<Incoming>,
        responses: &mut OutgoingResponses,
    ) -> Option<RpcOutcome> {
        find_response(id, messages, |other| self.handle_message(other, responses))
    }

    fn handle_message(self: &Arc<Self>, message: Incoming, responses: &mut OutgoingResponses) {
        if let Incoming::Response { id, outcome } = message {
            if let Some(caller) = self.detached_requests.lock().remove(&id) {
                let _ = caller.send(outcome);
            }
            return;
        }
        if let Some(response) = self.peer.handle_message(message) {
            let connection = Arc::clone(self);
            responses.send(response, move |message| async move {
                // Sending a response again is harmless, because the server ignores the second one.
                let repeat = Repeat::Harmless;
                connection.post(message, repeat).await.map(drop)
            });
        }
    }
}

#[async_trait]
impl Transport for PostTransport {
    async fn exchange(&self, request: SerializedRequest) -> Result<RpcOutcome, McpErrorKind> {
        self.connection.exchange(request).await
    }

    async fn notify(&self, message: Bytes, repeat: Repeat) -> Result<(), McpErrorKind> {
        let response = self.connection.post(message, repeat).await?;
        // The body is ignored; reading it to its end returns the connection to the pool.
        if let Ok(ResponseBody::Stream(reader)) = self.connection.link.read(response).await {
            self.connection.link.finish(reader).await;
        }
        Ok(())
    }

    async fn has_session(&self) -> Option<bool> {
        self.connection.has_session().await
    }

    fn is_open(&self) -> bool {
        !self.connection.is_closed.load(Ordering::Acquire)
    }

    fn negotiated(&self, version: ProtocolVersion) {
        let connection = &self.connection;
        if connection.version.set(version).is_ok() {
            // At this time, the session id is known if there is a session.
            let headers = connection.headers(connection.link.message_headers());
            let _ = connection.message_headers.set(headers);
        }
    }

    async fn listen(&self) {
        if self.connection.has(Feature::Handshake) && self.is_open() {
            let ready = {
                let mut listener = self.listener.lock();
                listener
                    .get_or_insert_with(|| GetStreamListener::start(Arc::clone(&self.connection)))
                    .ready()
            };
            ready.await;
        }
    }

    fn closes_with_exchange(&self) -> bool {
        true
    }

    async fn close(&self) {
        self.connection.end_session();
        drop(self.listener.lock().take());
        self.connection.delete_session().await;
    }
}

impl Drop for PostTransport {
    /// Deletes the session on the server, also if connecting was abandoned or the client was
    /// dropped.
    fn drop(&mut self) {
        if self.connection.end_session() && self.connection.session.get().is_some() {
            let connection = Arc::clone(&self.connection);
            run_in_background(async move {
                connection.delete_session().await;
            });
        }
    }
}
