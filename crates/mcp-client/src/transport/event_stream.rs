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
use crate::jsonrpc::{self, Incoming, RpcOutcome, RpcRequestId};
use crate::on_drop::OnDrop;
use crate::peer::{OutgoingResponses, Peer};
use crate::repeat::Repeat;
use crate::session_loss::SessionLoss;

/// Timeout for the HTTP response to a POST after the JSON-RPC response has arrived.
const POST_TIMEOUT: Duration = Duration::from_secs(2);

/// How the transport determines the URL for POST requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EndpointRule {
    /// The first `endpoint` event contains the URL (MCP 2024-11-05).
    Announced,
    /// The URL is that of the stream, unless an `endpoint` event names another one.
    SameUrl,
}

/// Sends requests by POST and receives responses on a GET stream.
///
/// A separate task reads the stream while the transport exists.
pub(crate) struct EventStreamTransport {
    state: Arc<EventStreamState>,
    reader: Mutex<Option<AbortOnDropHandle<()>>>,
}

/// State shared by the reading task and the callers.
struct EventStreamState {
    link: HttpLink,
    peer: Arc<Peer>,
    endpoint: Url,
    /// Whether the server has forgotten the session of the endpoint, although the stream is open.
    forgotten: AtomicBool,
    pending_requests: PendingRequests,
}

impl EventStreamTransport {
    /// Opens the stream, and waits for the `endpoint` event if the rule requires one.
    pub(crate) async fn open(
        link: HttpLink,
        rule: EndpointRule,
        peer: Arc<Peer>,
    ) -> Result<Self, McpErrorKind> {
        let body = link.get_stream(HeaderMap::new()).await?;
        let mut reader = ResponseReader::endless(body, &link.limits);
        let endpoint = match rule {
            EndpointRule::SameUrl => link.url.clone(),
            EndpointRule::Announced => announced_endpoint(&mut reader, &link.url).await?,
        };
        let state = Arc::new(EventStreamState {
            link,
            peer,
            endpoint,
            forgotten: AtomicBool::new(false),
            pending_requests: PendingRequests::new(),
        });
        let task = tokio::spawn(read_responses(Arc::clone(&state), reader));
        Ok(Self {
            state,
            reader: Mutex::new(Some(AbortOnDropHandle::new(task))),
        })
    }
}

async fn announced_endpoint(reader: &mut ResponseReader, base: &Url) -> Result<Url, McpErrorKind> {
    while let Some(event) = reader.next().await? {
        if event.event == "endpoint" {
            return endpoint_url(base, &event.data);
        }
    }
    Err(McpErrorKind::StreamClosed)
}

/// Resolves the announced endpoint against the stream's URL. Rejects an endpoint at another origin,
/// to which the credential would be sent.
fn endpoint_url(base: &Url, announced: &str) -> Result<Url, McpErrorKind> {
    let endpoint = base
        .join(announced.trim())
        .map_err(|_| McpErrorKind::ForeignEndpoint)?;
    if endpoint.origin() != base.origin() {
        return Err(McpErrorKind::ForeignEndpoint);
    }
    Ok(endpoint)
}

async fn read_responses(state: Arc<EventStreamState>, mut reader: ResponseReader) {
    // However the reading task ends, waiting requests fail.
    let close = || state.pending_requests.close(|| McpErrorKind::StreamClosed);
    let _guard = OnDrop::new(close);
    let mut responses = OutgoingResponses::default();
    loop {
        match reader.next().await {
            Ok(Some(event)) if event.event == "endpoint" => {}
            Ok(Some(event)) => {
                for message in parse_event(&event) {
                    state.dispatch(message, &mut responses);
                }
            }
            Ok(None) => break,
            Err(error) => {
                tracing::debug!(%error, "The event stream failed");
                break;
            }
        }
    }
}

impl EventStreamState {
    fn dispatch(self: &Arc<Self>, message: Incoming, responses: &mut OutgoingResponses) {
        match message {
            Incoming::Response { id, outcome } => {
                // An error without an id could belong to any request, so no request may fail with
                // it.
                self.pending_requests.reply(&id, Ok(outcome));
            }
            other => self.handle_message(other, responses),
        }
    }

    fn handle_message(self: &Arc<Self>, message: Incoming, responses: &mut OutgoingResponses) {
        if let Some(response) = self.peer.handle_message(message) {
            let state = Arc::clone(self);
            responses.send(response, move |message| async move {
                // Sending a response again is harmless, because the server ignores the second one.
                state.post(message, Repeat::Harmless).await.map(drop)
            });
        }
    }

    async fn send(
        &self,
        message: Bytes,
        repeat: Repeat,
    ) -> Result<reqwest::Response, McpErrorKind> {
        let headers = self.link.message_headers();
        self.link
            .post(&self.endpoint, headers, message, repeat)
            .await
    }

    async fn post(&self, message: Bytes, repeat: Repeat) -> Result<ResponseBody, McpErrorKind> {
        let response = check_status(self.send(message, repeat).await?).await?;
        self.read(response).await
    }

    async fn read(&self, response: reqwest::Response) -> Result<ResponseBody, McpErrorKind> {
        match self.link.read(response).await {
            // Most servers respond with `Accepted` as `text/plain`; the JSON-RPC response comes
            // later.
            Err(McpErrorKind::ContentType { .. } | McpErrorKind::InvalidMessage(_)) => {
                Ok(ResponseBody::Empty)
            }
            other => other,
        }
    }

    /// Returns the response to a request from an HTTP error.
    ///
    /// # Errors
    /// [`McpErrorKind::SessionExpired`] if the session does not exist, so that the request was not
    /// processed.
    async fn receive_rejection(
        self: &Arc<Self>,
        response: reqwest::Response,
        id: &RpcRequestId,
        opens: bool,
        repeat: Repeat,
    ) -> Result<RpcOutcome, McpErrorKind> {
        let is_not_found = response.status() == StatusCode::NOT_FOUND;
        let rejection = Rejection::read(response, Some(id)).await;
        let is_lost = match &rejection.response {
            _ if opens => false,
            RejectionResponse::Missing => match rejection.session_loss(self.names_session()) {
                SessionLoss::Certain => true,
                SessionLoss::IfPingConfirms => Box::pin(self.has_session()).await == Some(false),
                _ => false,
            },
            RejectionResponse::Unknown => {
                is_not_found && self.names_session() && repeat.is_harmless()
            }
            // `Session` checks JSON-RPC responses of all transports for an unknown session.
            RejectionResponse::Response(_) => false,
        };
        if is_lost {
            // The stream stays open, because other requests may still get their responses on it.
            self.forgotten.store(true, Ordering::Release);
            return Err(McpErrorKind::SessionExpired);
        }
        rejection.into_outcome(opens)
    }

    /// Returns whether the URL for POST requests identifies a session, unlike the URL of the
    /// stream.
    fn names_session(&self) -> bool {
        self.endpoint != self.link.url
    }

    /// Returns whether the server knows the session, according to a `ping`; `None` if the server
    /// does not respond quickly.
    async fn has_session(self: &Arc<Self>) -> Option<bool> {
        let ping = async {
            let (id, message) = jsonrpc::ping();
            let mut pending = self.pending_requests.register(&id).ok()?;
            let response = self.send(message, Repeat::Harmless).await.ok()?;
            if !response.status().is_success() {
                let rejection = Rejection::read(response, Some(&id)).await;
                return rejection.knows_session(self.names_session());
            }
            let pong = match self.receive(response, &id).await.ok()? {
                Some(pong) => pong,
                None => pending.reply().await.ok()?,
            };
            knows_session(&pong)
        };
        pillion_deadline::timeout(PING_TIMEOUT, ping).await.ok()?
    }

    /// Sends a request by POST. Returns the JSON-RPC response if it is in the body of the HTTP
    /// response, otherwise `None`.
    async fn post_for(
        self: &Arc<Self>,
        request: SerializedRequest,
    ) -> Result<Option<RpcOutcome>, McpErrorKind> {
        let id = &request.id;
        let response = self.send(request.message, request.repeat).await?;
        if !response.status().is_success() {
            let rejected = self.receive_rejection(response, id, request.opens, request.repeat);
            return Box::pin(rejected).await.map(Some);
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
        let mut find = |messages| {
            find_response(id, messages, |other| {
                self.handle_message(other, &mut responses);
            })
        };
        match self.read(response).await? {
            ResponseBody::Empty => Ok(None),
            ResponseBody::Messages(messages) => Ok(find(messages)),
            ResponseBody::Stream(mut reader) => {
                while let Some(event) = reader.next().await? {
                    if let Some(outcome) = find(parse_event(&event)) {
                        self.link.finish(reader).await;
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
        let (id, opens) = (request.id.clone(), request.opens);
        let mut pending = state.pending_requests.register(&id).map_err(|ending| {
            if opens {
                return ending; // The server had not named a session yet.
            }
            // The request was not sent, so it may use another connection.
            McpErrorKind::SessionExpired
        })?;
        let mut post = {
            let state = Arc::clone(state);
            Box::pin(async move { state.post_for(request).await })
        };
        let in_body = tokio::select! {
            biased;
            reply = pending.reply() => {
                // The response arrived on the stream before the POST finished. The POST is read to
                // its end in the background, so that its connection can be reused.
                tokio::spawn(tokio::time::timeout(POST_TIMEOUT, post));
                return reply;
            }
            in_body = &mut post => in_body?,
        };
        match in_body {
            Some(outcome) => Ok(outcome),
            None => pending.reply().await,
        }
    }

    async fn notify(&self, message: Bytes, repeat: Repeat) -> Result<(), McpErrorKind> {
        if let ResponseBody::Stream(reader) = self.state.post(message, repeat).await? {
            self.state.link.finish(reader).await;
        }
        Ok(())
    }

    async fn has_session(&self) -> Option<bool> {
        self.state.has_session().await
    }

    fn is_open(&self) -> bool {
        self.state.pending_requests.is_open() && !self.state.forgotten.load(Ordering::Acquire)
    }

    /// Closes the stream; there is no other way to end the session.
    async fn close(&self) {
        let reader = self.reader.lock().take();
        if let Some(reader) = reader {
            reader.abort();
            // When the reading task has ended, the connection is closed.
            let _ = reader.await;
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

    fn request(opens: bool) -> SerializedRequest {
        let id = RpcRequestId::Number(1);
        SerializedRequest {
            message: jsonrpc::request(&id, "initialize", &serde_json::json!({})),
            id,
            mirrored: Vec::new(),
            endless: false,
            opens,
            repeat: Repeat::Harmless,
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
        let peer = Arc::new(Peer::new(
            Callbacks::new(),
            Arc::new(McpResultCache::default()),
        ));
        let transport = EventStreamTransport::open(link, EndpointRule::Announced, peer)
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
        let base = Url::parse("http://h.example:8000/app/sse").unwrap();
        let endpoint = |announced| endpoint_url(&base, announced).map(String::from).ok();
        let expected = Some("http://h.example:8000/messages/?s=1".to_owned());
        assert_eq!(endpoint("/messages/?s=1"), expected);
        assert_eq!(endpoint("http://h.example:8000/messages/?s=1"), expected);
        assert_eq!(
            endpoint("message").as_deref(),
            Some("http://h.example:8000/app/message")
        );
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
