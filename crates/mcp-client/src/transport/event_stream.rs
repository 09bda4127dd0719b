use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use parking_lot::Mutex;
use tokio_util::task::AbortOnDropHandle;
use url::Url;

use super::pending_requests::PendingRequests;
use super::{PING_TIMEOUT, SerializedRequest, Transport, find_response, knows_session};
use crate::McpErrorKind;
use crate::http::{
    HttpLink, Rejection, RejectionResponse, ResponseBody, ResponseReader, check_status, parse_event,
};
use crate::message::{self, IncomingMessage, RpcOutcome, RpcRequestId};
use crate::on_drop::OnDrop;
use crate::peer::{OutgoingResponses, Peer};
use crate::repeat::RepeatSafety;
use crate::session_loss::SessionLoss;

/// Timeout for the HTTP response to a POST after the JSON-RPC response has arrived.
const POST_TIMEOUT: Duration = Duration::from_secs(2);

/// How the transport determines the URL for POST requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EndpointRule {
    /// The first `endpoint` event contains the URL (MCP 2024-11-05).
    AnnouncedUrl,
    /// The URL is that of the GET stream. An `endpoint` event is ignored.
    SameUrl,
}

/// Sends requests by POST and receives responses on a GET stream.
///
/// A separate task reads the stream while the transport exists.
pub(crate) struct EventStreamTransport {
    state: Arc<EventStreamState>,
    reading_task: Mutex<Option<AbortOnDropHandle<()>>>,
}

/// The state of the transport that its reading task and its callers share.
struct EventStreamState {
    link: HttpLink,
    peer: Arc<Peer>,
    endpoint: Url,
    /// Whether the server has forgotten the session of the endpoint, although the stream is open.
    is_session_lost: AtomicBool,
    pending_requests: PendingRequests,
}

impl EventStreamTransport {
    /// Opens the stream, and waits for the `endpoint` event if `rule` requires one.
    pub(crate) async fn open(
        link: HttpLink,
        rule: EndpointRule,
        peer: Arc<Peer>,
    ) -> Result<Self, McpErrorKind> {
        let body = link.get_stream(HeaderMap::new()).await?;
        let mut reader = ResponseReader::for_long_lived_stream(body, &link.limits);
        let endpoint = match rule {
            EndpointRule::SameUrl => link.url.clone(),
            EndpointRule::AnnouncedUrl => wait_for_endpoint(&mut reader, &link.url).await?,
        };
        let state = Arc::new(EventStreamState {
            link,
            peer,
            endpoint,
            is_session_lost: AtomicBool::new(false),
            pending_requests: PendingRequests::new(),
        });
        let task = tokio::spawn(read_responses(Arc::clone(&state), reader));
        Ok(Self {
            state,
            reading_task: Mutex::new(Some(AbortOnDropHandle::new(task))),
        })
    }
}

async fn wait_for_endpoint(
    reader: &mut ResponseReader,
    base_url: &Url,
) -> Result<Url, McpErrorKind> {
    while let Some(event) = reader.next_event().await? {
        if event.event == "endpoint" {
            return resolve_endpoint(base_url, &event.data);
        }
    }
    Err(McpErrorKind::StreamClosed)
}

/// Resolves the URL in an `endpoint` event against the stream's URL. Rejects a URL at another
/// origin, because requests to that URL would carry the credential.
fn resolve_endpoint(base_url: &Url, announced_url: &str) -> Result<Url, McpErrorKind> {
    let endpoint = base_url
        .join(announced_url.trim())
        .map_err(|_| McpErrorKind::ForeignEndpoint)?;
    if endpoint.origin() != base_url.origin() {
        return Err(McpErrorKind::ForeignEndpoint);
    }
    Ok(endpoint)
}

async fn read_responses(state: Arc<EventStreamState>, mut reader: ResponseReader) {
    // When this task ends for any reason, the guard fails all requests that wait for a response.
    let close = || state.pending_requests.close(|| McpErrorKind::StreamClosed);
    let _guard = OnDrop::new(close);
    let mut responses = OutgoingResponses::default();
    loop {
        match reader.next_event().await {
            Ok(Some(event)) if event.event == "endpoint" => {}
            Ok(Some(event)) => {
                for message in parse_event(&event) {
                    state.handle_incoming(message, &mut responses);
                }
            }
            Ok(None) => break,
            Err(error) => {
                let server = &*state.link.label;
                tracing::debug!(mcp.server = server, %error, "The event stream failed");
                break;
            }
        }
    }
}

impl EventStreamState {
    fn handle_incoming(
        self: &Arc<Self>,
        message: IncomingMessage,
        responses: &mut OutgoingResponses,
    ) {
        match message {
            IncomingMessage::Response { id, outcome } => {
                // An error without an ID fails no request, because the error could belong to any
                // request.
                self.pending_requests.deliver_reply(&id, Ok(outcome));
            }
            message => self.handle_message(message, responses),
        }
    }

    fn handle_message(
        self: &Arc<Self>,
        message: IncomingMessage,
        responses: &mut OutgoingResponses,
    ) {
        if let Some(response) = self.peer.handle_message(message) {
            let state = Arc::clone(self);
            responses.send(response, move |message| async move {
                // Sending a response again is harmless, because the server ignores the second one.
                state.post(message, RepeatSafety::Harmless).await.map(drop)
            });
        }
    }

    async fn send(
        &self,
        message: Bytes,
        repeat_safety: RepeatSafety,
    ) -> Result<reqwest::Response, McpErrorKind> {
        let headers = self.link.message_headers();
        self.link
            .post(&self.endpoint, headers, message, repeat_safety)
            .await
    }

    async fn post(
        &self,
        message: Bytes,
        repeat_safety: RepeatSafety,
    ) -> Result<ResponseBody, McpErrorKind> {
        let response = check_status(self.send(message, repeat_safety).await?).await?;
        self.read_body(response).await
    }

    async fn read_body(&self, response: reqwest::Response) -> Result<ResponseBody, McpErrorKind> {
        match self.link.read_body(response).await {
            // A body that is not JSON-RPC is accepted, because most servers respond with `Accepted`
            // as `text/plain` and send the JSON-RPC response later, on the stream.
            Err(McpErrorKind::ContentType { .. } | McpErrorKind::InvalidMessage(_)) => {
                Ok(ResponseBody::Empty)
            }
            body => body,
        }
    }

    /// Reads an HTTP error, and returns the JSON-RPC response to the request if the body contains
    /// one.
    ///
    /// # Errors
    /// [`McpErrorKind::SessionExpired`] if the session does not exist, so that the request was not
    /// processed.
    async fn receive_rejection(
        self: &Arc<Self>,
        response: reqwest::Response,
        id: &RpcRequestId,
        opens_session: bool,
        repeat_safety: RepeatSafety,
    ) -> Result<RpcOutcome, McpErrorKind> {
        let is_not_found = response.status() == StatusCode::NOT_FOUND;
        let rejection = Rejection::read(response, Some(id)).await;
        let is_lost = match &rejection.response {
            _ if opens_session => false,
            RejectionResponse::Missing => match rejection.session_loss(self.has_session_url()) {
                SessionLoss::Certain => true,
                SessionLoss::IfPingConfirms => Box::pin(self.has_session()).await == Some(false),
                _ => false,
            },
            RejectionResponse::Unknown => {
                is_not_found && self.has_session_url() && repeat_safety.is_harmless()
            }
            // A JSON-RPC response is not checked here, because `Session` checks the JSON-RPC
            // responses of all transports for an unknown session.
            RejectionResponse::Response(_) => false,
        };
        if is_lost {
            // The stream stays open, because other requests may still get their responses on it.
            self.is_session_lost.store(true, Ordering::Release);
            return Err(McpErrorKind::SessionExpired);
        }
        rejection.into_outcome(opens_session)
    }

    /// Returns whether the URL for POST requests identifies a session, unlike the URL of the
    /// stream.
    fn has_session_url(&self) -> bool {
        self.endpoint != self.link.url
    }

    /// Returns whether the server knows the session, according to a `ping`; `None` if the server
    /// does not respond quickly.
    async fn has_session(self: &Arc<Self>) -> Option<bool> {
        let ping = async {
            let (id, message) = message::encode_ping();
            let mut pending_request = self.pending_requests.register(&id).ok()?;
            let response = self.send(message, RepeatSafety::Harmless).await.ok()?;
            if !response.status().is_success() {
                let rejection = Rejection::read(response, Some(&id)).await;
                return rejection.knows_session(self.has_session_url());
            }
            let ping_outcome = match self.receive(response, &id).await.ok()? {
                Some(outcome) => outcome,
                None => pending_request.wait_for_reply().await.ok()?,
            };
            knows_session(&ping_outcome)
        };
        pillion_deadline::timeout(PING_TIMEOUT, ping).await.ok()?
    }

    /// Sends a request by POST. Returns the JSON-RPC response if it is in the body of the HTTP
    /// response, otherwise `None`.
    async fn post_request(
        self: &Arc<Self>,
        request: SerializedRequest,
    ) -> Result<Option<RpcOutcome>, McpErrorKind> {
        let id = &request.id;
        let response = self.send(request.message, request.repeat_safety).await?;
        if !response.status().is_success() {
            let rejection =
                self.receive_rejection(response, id, request.opens_session, request.repeat_safety);
            return Box::pin(rejection).await.map(Some);
        }
        self.receive(response, id).await
    }

    /// Returns the JSON-RPC response to a request if it is in the body of the HTTP response.
    async fn receive(
        self: &Arc<Self>,
        response: reqwest::Response,
        id: &RpcRequestId,
    ) -> Result<Option<RpcOutcome>, McpErrorKind> {
        let mut responses = OutgoingResponses::default();
        let mut find_outcome = |messages| {
            find_response(id, messages, |message| {
                self.handle_message(message, &mut responses);
            })
        };
        match self.read_body(response).await? {
            ResponseBody::Empty => Ok(None),
            ResponseBody::Messages(messages) => Ok(find_outcome(messages)),
            ResponseBody::Stream(mut reader) => {
                while let Some(event) = reader.next_event().await? {
                    if let Some(outcome) = find_outcome(parse_event(&event)) {
                        self.link.finish_stream(reader).await;
                        return Ok(Some(outcome));
                    }
                }
                Ok(None)
            }
        }
    }
}

#[async_trait]
impl Transport for EventStreamTransport {
    async fn exchange(&self, request: SerializedRequest) -> Result<RpcOutcome, McpErrorKind> {
        let state = &self.state;
        let (id, opens_session) = (request.id.clone(), request.opens_session);
        let register_result = state.pending_requests.register(&id);
        let mut pending_request = register_result.map_err(|close_error| {
            if opens_session {
                return close_error; // There is no session yet that could have expired.
            }
            // The request was not sent, so it can be sent over another connection.
            McpErrorKind::SessionExpired
        })?;
        let mut post = {
            let state = Arc::clone(state);
            Box::pin(async move { state.post_request(request).await })
        };
        let body_outcome = tokio::select! {
            biased;
            reply = pending_request.wait_for_reply() => {
                // The JSON-RPC response arrived on the stream before the POST finished. The HTTP
                // response to the POST is read to its end in the background, so that its connection
                // can be reused.
                tokio::spawn(tokio::time::timeout(POST_TIMEOUT, post));
                return reply;
            }
            outcome = &mut post => outcome?,
        };
        match body_outcome {
            Some(outcome) => Ok(outcome),
            None => pending_request.wait_for_reply().await,
        }
    }

    async fn notify(&self, message: Bytes, safety: RepeatSafety) -> Result<(), McpErrorKind> {
        if let ResponseBody::Stream(reader) = self.state.post(message, safety).await? {
            self.state.link.finish_stream(reader).await;
        }
        Ok(())
    }

    async fn has_session(&self) -> Option<bool> {
        self.state.has_session().await
    }

    fn is_open(&self) -> bool {
        self.state.pending_requests.is_open() && !self.state.is_session_lost.load(Ordering::Acquire)
    }

    /// Closes the stream; there is no other way to end the session.
    async fn close(&self) {
        let reading_task = self.reading_task.lock().take();
        if let Some(reading_task) = reading_task {
            reading_task.abort();
            // Waits for the end of the reading task, because only then is the connection closed.
            let _ = reading_task.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use pillion_testkit::{Fault, FaultServer};

    use super::*;
    use crate::ServerConfig;
    use crate::callbacks::Callbacks;
    use crate::result_cache::McpResultCache;

    fn request(opens_session: bool) -> SerializedRequest {
        let id = RpcRequestId::Number(1);
        SerializedRequest {
            message: message::encode_request(&id, "initialize", &serde_json::json!({})),
            id,
            mirrored_headers: Vec::new(),
            is_endless: false,
            opens_session,
            repeat_safety: RepeatSafety::Harmless,
        }
    }

    #[tokio::test]
    async fn a_handshake_on_a_closed_stream_fails() {
        let server = FaultServer::start(|_| {
            let event = b"event: endpoint\ndata: /messages\n\n".to_vec();
            let head = Fault::head("text/event-stream");
            vec![head, Fault::Send(event), Fault::Close]
        })
        .await;
        let config = ServerConfig::new("x", &server.url).unwrap();
        let link = HttpLink::new(&config, &Arc::default()).unwrap();
        let peer = Peer::new(Callbacks::new(), Arc::new(McpResultCache::default()));
        let transport =
            EventStreamTransport::open(link, EndpointRule::AnnouncedUrl, Arc::new(peer))
                .await
                .unwrap();
        while transport.is_open() {
            tokio::task::yield_now().await;
        }
        let opening = transport.exchange(request(true)).await.unwrap_err();
        assert!(matches!(opening, McpErrorKind::StreamClosed), "{opening}");
        let later = transport.exchange(request(false)).await.unwrap_err();
        assert!(matches!(later, McpErrorKind::SessionExpired), "{later}");
    }

    #[test]
    fn e7_an_endpoint_is_relative_or_absolute_but_of_the_same_origin() {
        let base_url = Url::parse("http://h.example:8000/app/sse").unwrap();
        let endpoint = |text| resolve_endpoint(&base_url, text).map(String::from).ok();
        let expected = Some("http://h.example:8000/messages/?s=1".to_owned());
        assert_eq!(endpoint("/messages/?s=1"), expected);
        assert_eq!(endpoint("http://h.example:8000/messages/?s=1"), expected);
        let expected = Some("http://h.example:8000/app/message".to_owned());
        assert_eq!(endpoint("message"), expected);
        for foreign in [
            "http://evil.example/m",
            "//evil.example/m",
            "https://h.example:8000/m",
            "http://h.example/m",
        ] {
            assert_eq!(endpoint(foreign), None, "{foreign}");
        }
    }
}
