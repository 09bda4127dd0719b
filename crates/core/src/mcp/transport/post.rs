use std::sync::OnceLock;

use bytes::Bytes;
use http::header::HeaderName;
use http::{HeaderMap, HeaderValue, StatusCode};

use super::{Transport, TransportFuture};
use crate::mcp::http::{
    Answer, AnswerReader, HttpLink, check_status, messages_of, read_answer, read_body, status_error,
};
use crate::mcp::jsonrpc::{self, Incoming, RequestId, RpcOutcome};
use crate::mcp::{Feature, McpErrorKind, ProtocolVersion};

const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");

/// Every request is a POST to the server's URL and its response is in the answer, as JSON
/// or in an event stream: Streamable HTTP, POST-SSE and plain HTTP (E2, E7).
pub(in crate::mcp) struct PostTransport {
    link: HttpLink,
    session: OnceLock<HeaderValue>,
    version: OnceLock<ProtocolVersion>,
}

impl PostTransport {
    pub(in crate::mcp) fn new(link: HttpLink) -> Self {
        Self {
            link,
            session: OnceLock::new(),
            version: OnceLock::new(),
        }
    }

    fn headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        if let Some(session) = self.session.get() {
            headers.insert(SESSION_ID, session.clone());
        }
        if let Some(version) = self.version.get()
            && version.supports(Feature::ProtocolVersionHeader)
        {
            headers.insert(PROTOCOL_VERSION, HeaderValue::from_static(version.as_str()));
        }
        headers
    }

    async fn post(&self, message: Bytes) -> Result<reqwest::Response, McpErrorKind> {
        let url = &self.link.url;
        let response = self.link.post(url, &self.headers(), message).await?;
        let response = if self.session.get().is_some() {
            check_session(response).await?
        } else {
            check_status(response)?
        };
        // Only the answer to `initialize` may set it; no version is known before that.
        if self.version.get().is_none()
            && let Some(session) = response.headers().get(&SESSION_ID)
        {
            let mut session = session.clone();
            session.set_sensitive(true);
            let _ = self.session.set(session);
        }
        Ok(response)
    }

    async fn exchange(&self, id: &RequestId, message: Bytes) -> Result<RpcOutcome, McpErrorKind> {
        let response = self.post(message).await?;
        match read_answer(response, &self.link.limits).await? {
            Answer::Empty => Err(McpErrorKind::NoResponse),
            Answer::Messages(messages) => self
                .find_response(id, messages)
                .await
                .ok_or(McpErrorKind::NoResponse),
            Answer::Stream(reader) => self.read_stream(id, *reader).await,
        }
    }

    async fn read_stream(
        &self,
        id: &RequestId,
        mut reader: AnswerReader,
    ) -> Result<RpcOutcome, McpErrorKind> {
        while let Some(event) = reader.next().await? {
            if let Some(outcome) = self.find_response(id, messages_of(&event)).await {
                reader.finish_in_background();
                return Ok(outcome);
            }
        }
        Err(McpErrorKind::NoResponse)
    }

    /// The response to `id` among `messages`; the server's own requests are answered, what
    /// is meant for somebody else is left out.
    async fn find_response(
        &self,
        id: &RequestId,
        messages: impl IntoIterator<Item = Incoming>,
    ) -> Option<RpcOutcome> {
        let mut found = None;
        for message in messages {
            match message {
                Incoming::Response { id: other, outcome } if other.answers(id) => {
                    found = Some(outcome);
                }
                Incoming::Response { .. } | Incoming::Notification => {}
                Incoming::Request { id, method } => {
                    let answer = jsonrpc::answer_to_server(&id, &method);
                    if let Err(error) = self.post(answer).await {
                        tracing::debug!(%error, method, "An answer to the server was refused");
                    }
                }
            }
        }
        found
    }
}

/// Tells a session that the server has forgotten from every other status. The
/// specification says 404; many servers, the official examples among them, say 400 and
/// `No valid session ID provided` after a restart. Neither has looked at the request.
async fn check_session(response: reqwest::Response) -> Result<reqwest::Response, McpErrorKind> {
    const LONGEST_REASON: usize = 4096;
    match response.status() {
        StatusCode::NOT_FOUND => Err(McpErrorKind::SessionExpired),
        StatusCode::BAD_REQUEST => {
            let error = status_error(&response);
            let reason = read_body(response, LONGEST_REASON)
                .await
                .unwrap_or_default();
            let reason = String::from_utf8_lossy(&reason).to_ascii_lowercase();
            let is_about_it = reason.contains("session");
            Err(if is_about_it {
                McpErrorKind::SessionExpired
            } else {
                error
            })
        }
        _ => check_status(response),
    }
}

impl Transport for PostTransport {
    fn exchange<'a>(
        &'a self,
        id: &'a RequestId,
        message: Bytes,
    ) -> TransportFuture<'a, Result<RpcOutcome, McpErrorKind>> {
        Box::pin(self.exchange(id, message))
    }

    fn notify(&self, message: Bytes) -> TransportFuture<'_, Result<(), McpErrorKind>> {
        Box::pin(async {
            let response = self.post(message).await?;
            // Whatever the body is, it answers nothing; reading it frees the connection.
            if let Ok(Answer::Stream(reader)) = read_answer(response, &self.link.limits).await {
                reader.finish_in_background();
            }
            Ok(())
        })
    }

    fn is_open(&self) -> bool {
        true
    }

    fn negotiated(&self, version: ProtocolVersion) {
        let _ = self.version.set(version);
    }

    fn close(&self) -> TransportFuture<'_, ()> {
        Box::pin(async {
            if self.session.get().is_some() {
                self.link.delete(&self.headers()).await;
            }
        })
    }
}
