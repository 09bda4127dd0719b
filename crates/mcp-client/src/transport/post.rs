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
use crate::message::{IncomingMessage, MirroredHeaders, RpcOutcome, RpcRequestId};
use crate::on_drop::{OnDrop, run_in_background};
use crate::peer::{OutgoingResponses, Peer};
use crate::repeat::RepeatSafety;
use crate::{Feature, McpErrorKind, ProtocolVersion};
use listener::GetStreamListener;
use resumption::Resumption;

const SESSION_ID_HEADER: HeaderName = HeaderName::from_static("mcp-session-id");
const PROTOCOL_VERSION_HEADER: HeaderName = HeaderName::from_static("mcp-protocol-version");

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
    session_id: OnceLock<HeaderValue>,
    version: OnceLock<ProtocolVersion>,
    /// The headers of every message, set after the revision was negotiated.
    message_headers: OnceLock<HeaderMap>,
    /// Whether the session has expired or was closed.
    is_closed: AtomicBool,
    /// Requests whose stream broke, by ID. Some servers respond to such requests on the listening
    /// stream.
    detached_requests: Mutex<HashMap<RpcRequestId, oneshot::Sender<RpcOutcome>>>,
}

impl PostTransport {
    pub(crate) fn new(link: HttpLink, peer: Arc<Peer>) -> Self {
        Self {
            connection: Arc::new(PostConnection {
                link,
                peer,
                session_id: OnceLock::new(),
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
    fn has_feature(&self, feature: Feature) -> bool {
        self.version
            .get()
            .is_some_and(|version| version.supports(feature))
    }

    /// Adds the session ID and the protocol revision to `headers`, once they are known.
    fn add_session_headers(&self, mut headers: HeaderMap) -> HeaderMap {
        if let Some(id) = self.session_id.get() {
            headers.insert(SESSION_ID_HEADER, id.clone());
        }
        if let Some(version) = self.version.get()
            && version.supports(Feature::ProtocolVersionHeader)
        {
            headers.insert(
                PROTOCOL_VERSION_HEADER,
                HeaderValue::from_static(version.as_str()),
            );
        }
        headers
    }

    /// Returns the headers of this session's messages.
    fn message_headers(&self) -> HeaderMap {
        match self.message_headers.get() {
            Some(headers) => headers.clone(),
            None => self.add_session_headers(self.link.message_headers()),
        }
    }

    /// Sends a message and returns the response, whatever its status.
    async fn send(
        &self,
        message: Bytes,
        mirrored_headers: MirroredHeaders,
        repeat_safety: RepeatSafety,
    ) -> Result<reqwest::Response, McpErrorKind> {
        let url = &self.link.url;
        let mut headers = self.message_headers();
        for (name, value) in mirrored_headers {
            headers.insert(name, value);
        }
        self.link.post(url, headers, message, repeat_safety).await
    }

    /// Sends a message that has no JSON-RPC response.
    async fn post(
        &self,
        message: Bytes,
        repeat_safety: RepeatSafety,
    ) -> Result<reqwest::Response, McpErrorKind> {
        let response = self
            .send(message, MirroredHeaders::new(), repeat_safety)
            .await?;
        self.check_session(check_status(response).await)
    }

    /// Marks the session as closed, so that the next request must open another session. Returns
    /// `false` if the session was already closed.
    fn mark_closed(&self) -> bool {
        !self.is_closed.swap(true, Ordering::AcqRel)
    }

    /// Deletes the session on the server, if there is one (MCP 2025-11-25, "Session Management").
    async fn delete_session(&self) {
        if self.session_id.get().is_some() {
            self.link
                .delete(self.add_session_headers(HeaderMap::new()))
                .await;
        }
    }

    async fn exchange(
        self: &Arc<Self>,
        request: SerializedRequest,
    ) -> Result<RpcOutcome, McpErrorKind> {
        let send_operation = self.send(
            request.message,
            request.mirrored_headers,
            request.repeat_safety,
        );
        let response = send_operation.await?;
        if !response.status().is_success() {
            let rejection = self.receive_rejection(
                response,
                &request.id,
                request.opens_session,
                request.repeat_safety.is_harmless(),
            );
            return Box::pin(rejection).await;
        }
        // Only the response to `initialize` may set the session ID; the revision is set after that
        // response.
        if self.version.get().is_none()
            && let Some(header) = response.headers().get(&SESSION_ID_HEADER)
        {
            let mut session_id = header.clone();
            session_id.set_sensitive(true);
            let _ = self.session_id.set(session_id);
        }
        let outcome = self
            .receive(response, &request.id, request.is_endless)
            .await;
        outcome.map_err(McpErrorKind::convert_after_acceptance)
    }

    /// Receives the response to a request that the server has accepted.
    async fn receive(
        self: &Arc<Self>,
        response: reqwest::Response,
        id: &RpcRequestId,
        is_endless: bool,
    ) -> Result<RpcOutcome, McpErrorKind> {
        let mut responses = OutgoingResponses::default();
        match self.link.read_body(response).await? {
            ResponseBody::Empty => Err(McpErrorKind::NoResponse),
            ResponseBody::Messages(messages) => self
                .find_response(id, messages, &mut responses)
                .ok_or(McpErrorKind::NoResponse),
            ResponseBody::Stream(mut reader) => {
                if is_endless {
                    reader.remove_total_limits();
                }
                let read_operation = self.read_stream(id, &mut reader, &mut responses);
                let outcome = read_operation.await?;
                self.link.finish_stream(reader).await;
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
        let mut resumption = Resumption::new(self.has_feature(Feature::Handshake));
        loop {
            let end_error = match reader.next_event().await {
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
                Err(error @ McpErrorKind::ConnectionBroken(_)) => error,
                Err(error) => return Err(error),
            };
            let Some(resume_headers) = resumption.wait(reader) else {
                return Err(end_error);
            };
            let listener_response = self.receive_on_listener(id);
            let resumed_stream = async {
                let headers = self.add_session_headers(resume_headers.await);
                self.check_session(self.link.get_stream(headers).await)
            };
            // The future of resuming is boxed, because resuming is rare and would enlarge the
            // future of every exchange.
            let continuation = Box::pin(async {
                tokio::select! {
                    biased;
                    Ok(outcome) = listener_response => Ok(Either::Left(outcome)),
                    stream = resumed_stream => {
                        if matches!(stream, Err(McpErrorKind::SessionExpired)) {
                            self.mark_closed();
                        }
                        // The error of the GET is converted, because the server has accepted the
                        // request: a rejection of the GET must not look like a rejection of the
                        // request.
                        stream
                            .map(Either::Right)
                            .map_err(|error| McpErrorKind::ResponseLost(Box::new(error)))
                    }
                }
            });
            match continuation.await? {
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

    /// Returns the response to `id` in `messages`. Responds to requests of the server, delivers
    /// notifications, and skips other responses.
    fn find_response(
        self: &Arc<Self>,
        id: &RpcRequestId,
        messages: Vec<IncomingMessage>,
        responses: &mut OutgoingResponses,
    ) -> Option<RpcOutcome> {
        find_response(id, messages, |message| {
            self.handle_message(message, responses);
        })
    }

    fn handle_message(
        self: &Arc<Self>,
        message: IncomingMessage,
        responses: &mut OutgoingResponses,
    ) {
        if let IncomingMessage::Response { id, outcome } = message {
            if let Some(outcome_tx) = self.detached_requests.lock().remove(&id) {
                let _ = outcome_tx.send(outcome);
            }
            return;
        }
        if let Some(response) = self.peer.handle_message(message) {
            let connection = Arc::clone(self);
            responses.send(response, move |message| async move {
                // Sending a response again is harmless, because the server ignores the second one.
                let repeat_safety = RepeatSafety::Harmless;
                connection.post(message, repeat_safety).await.map(drop)
            });
        }
    }
}

#[async_trait]
impl Transport for PostTransport {
    async fn exchange(&self, request: SerializedRequest) -> Result<RpcOutcome, McpErrorKind> {
        self.connection.exchange(request).await
    }

    async fn notify(
        &self,
        message: Bytes,
        repeat_safety: RepeatSafety,
    ) -> Result<(), McpErrorKind> {
        let response = self.connection.post(message, repeat_safety).await?;
        // The body is ignored; reading it to its end returns the connection to the pool.
        if let Ok(ResponseBody::Stream(reader)) = self.connection.link.read_body(response).await {
            self.connection.link.finish_stream(reader).await;
        }
        Ok(())
    }

    async fn has_session(&self) -> Option<bool> {
        self.connection.has_session().await
    }

    fn is_open(&self) -> bool {
        !self.connection.is_closed.load(Ordering::Acquire)
    }

    fn set_version(&self, version: ProtocolVersion) {
        let connection = &self.connection;
        if connection.version.set(version).is_ok() {
            // The headers can be stored now, because the session ID, if there is one, is known
            // before the revision.
            let headers = connection.add_session_headers(connection.link.message_headers());
            let _ = connection.message_headers.set(headers);
        }
    }

    async fn listen(&self) {
        if self.connection.has_feature(Feature::Handshake) && self.is_open() {
            let stream_opened = {
                let mut listener = self.listener.lock();
                listener
                    .get_or_insert_with(|| GetStreamListener::start(Arc::clone(&self.connection)))
                    .wait_until_ready()
            };
            stream_opened.await;
        }
    }

    fn closes_with_exchange(&self) -> bool {
        true
    }

    async fn close(&self) {
        self.connection.mark_closed();
        drop(self.listener.lock().take());
        self.connection.delete_session().await;
    }
}

impl Drop for PostTransport {
    /// Deletes the session on the server, even if connecting was abandoned or the client was
    /// dropped.
    fn drop(&mut self) {
        if self.connection.mark_closed() && self.connection.session_id.get().is_some() {
            let connection = Arc::clone(&self.connection);
            run_in_background(async move {
                connection.delete_session().await;
            });
        }
    }
}
