use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use parking_lot::Mutex;
use tokio::sync::{Semaphore, oneshot};
use tokio_util::task::AbortOnDropHandle;
use url::Url;

use super::{Transport, TransportFuture};
use crate::mcp::http::{
    Answer, AnswerReader, HttpLink, check_status, content_type, messages_of, read_answer,
};
use crate::mcp::jsonrpc::{self, Incoming, RequestId, RpcOutcome};
use crate::mcp::{McpErrorKind, ProtocolVersion};

/// Where requests are posted to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::mcp) enum EndpointRule {
    /// To the URL that the first `endpoint` event names (MCP 2024-11-05).
    Announced,
    /// To the URL of the stream (S1), unless an `endpoint` event says otherwise.
    SameUrl,
}

/// A GET stream carries the responses; requests are posted (E7).
///
/// A task of its own reads the stream for as long as the transport lives.
pub(in crate::mcp) struct EventStreamTransport {
    poster: Arc<Poster>,
    _reader: AbortOnDropHandle<()>,
}

/// What the reading task and the callers share.
struct Poster {
    link: HttpLink,
    endpoint: Url,
    waiting: Mutex<HashMap<RequestId, oneshot::Sender<RpcOutcome>>>,
    open: AtomicBool,
    /// What is left of the answers that may be on their way to the server.
    answers: Arc<Semaphore>,
}

/// How many of the server's own requests are answered at once. A server that asks faster
/// than it takes the answers gets none to the rest, so that what is held here stays bounded.
const MOST_ANSWERS: usize = 16;

/// How long an answer to the server may be on its way.
const ANSWER_PATIENCE: Duration = Duration::from_secs(10);

impl EventStreamTransport {
    /// Opens the stream and, where the rule asks for it, waits for the endpoint.
    pub(in crate::mcp) async fn open(
        link: HttpLink,
        rule: EndpointRule,
    ) -> Result<Self, McpErrorKind> {
        let response = link.get_stream().await?;
        let content_type = content_type(&response);
        if content_type != "text/event-stream" {
            return Err(McpErrorKind::ContentType { content_type });
        }
        let mut reader = AnswerReader::endless(response, &link.limits);
        let endpoint = match rule {
            EndpointRule::SameUrl => link.url.clone(),
            EndpointRule::Announced => announced_endpoint(&mut reader, &link.url).await?,
        };
        let poster = Arc::new(Poster {
            link,
            endpoint,
            waiting: Mutex::default(),
            open: AtomicBool::new(true),
            answers: Arc::new(Semaphore::new(MOST_ANSWERS)),
        });
        let task = tokio::spawn(read_responses(Arc::clone(&poster), reader));
        Ok(Self {
            poster,
            _reader: AbortOnDropHandle::new(task),
        })
    }
}

async fn announced_endpoint(reader: &mut AnswerReader, base: &Url) -> Result<Url, McpErrorKind> {
    while let Some(event) = reader.next().await? {
        if event.event == "endpoint" {
            return endpoint_url(base, &event.data);
        }
    }
    Err(McpErrorKind::StreamClosed)
}

/// A relative endpoint is resolved against the stream's URL; one of another origin would
/// carry the credential there and is refused.
fn endpoint_url(base: &Url, announced: &str) -> Result<Url, McpErrorKind> {
    let endpoint = base.join(announced.trim());
    let endpoint = endpoint.map_err(|_| McpErrorKind::ForeignEndpoint)?;
    if endpoint.origin() != base.origin() {
        return Err(McpErrorKind::ForeignEndpoint);
    }
    Ok(endpoint)
}

async fn read_responses(poster: Arc<Poster>, mut reader: AnswerReader) {
    loop {
        match reader.next().await {
            Ok(Some(event)) if event.event == "endpoint" => {}
            Ok(Some(event)) => {
                for message in messages_of(&event) {
                    poster.dispatch(message);
                }
            }
            Ok(None) => break,
            Err(error) => {
                tracing::debug!(%error, "The event stream broke");
                break;
            }
        }
    }
    poster.open.store(false, Ordering::Release);
    // Dropping the senders tells every caller that its response will not come.
    poster.waiting.lock().clear();
}

impl Poster {
    fn dispatch(self: &Arc<Self>, message: Incoming) {
        match message {
            Incoming::Response { id, outcome } => {
                // An error without an id could be anybody's: it might end a good call.
                if let Some(caller) = self.waiting.lock().remove(&id) {
                    let _ = caller.send(outcome);
                }
            }
            Incoming::Notification => {}
            Incoming::Request { id, method } => {
                let Ok(permit) = Arc::clone(&self.answers).try_acquire_owned() else {
                    tracing::debug!(method, "A request of the server's stays unanswered");
                    return;
                };
                let poster = Arc::clone(self);
                tokio::spawn(async move {
                    let _permit = permit;
                    let answer = poster.post(jsonrpc::answer_to_server(&id, &method));
                    match tokio::time::timeout(ANSWER_PATIENCE, answer).await {
                        Ok(Ok(_)) => {}
                        Ok(Err(error)) => {
                            tracing::debug!(%error, method, "An answer to the server was refused");
                        }
                        Err(_) => tracing::debug!(method, "An answer to the server took too long"),
                    }
                });
            }
        }
    }

    async fn post(&self, message: Bytes) -> Result<Answer, McpErrorKind> {
        let response = self
            .link
            .post(&self.endpoint, &HeaderMap::new(), message)
            .await?;
        let response = check_status(response)?;
        match read_answer(response, &self.link.limits).await {
            // `Accepted` as text/plain is what most servers answer: the response comes later.
            Err(McpErrorKind::ContentType { .. } | McpErrorKind::InvalidMessage(_)) => {
                Ok(Answer::Empty)
            }
            other => other,
        }
    }

    /// Posts, and gives the response only if the server put it into this very answer.
    async fn post_for(
        &self,
        id: &RequestId,
        message: Bytes,
    ) -> Result<Option<RpcOutcome>, McpErrorKind> {
        let of_id = |message| match message {
            Incoming::Response { id: other, outcome } if other.answers(id) => Some(outcome),
            _ => None,
        };
        match self.post(message).await? {
            Answer::Empty => Ok(None),
            Answer::Messages(messages) => Ok(messages.into_iter().find_map(of_id)),
            Answer::Stream(mut reader) => {
                while let Some(event) = reader.next().await? {
                    if let Some(outcome) = messages_of(&event).into_iter().find_map(of_id) {
                        reader.finish_in_background();
                        return Ok(Some(outcome));
                    }
                }
                Ok(None)
            }
        }
    }
}

/// Takes a caller off the waiting list when it goes away before its response.
struct Waiting<'a> {
    poster: &'a Poster,
    id: &'a RequestId,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.poster.waiting.lock().remove(self.id);
    }
}

impl Transport for EventStreamTransport {
    fn exchange<'a>(
        &'a self,
        id: &'a RequestId,
        message: Bytes,
    ) -> TransportFuture<'a, Result<RpcOutcome, McpErrorKind>> {
        Box::pin(async move {
            let poster = &*self.poster;
            let (sender, mut on_stream) = oneshot::channel();
            poster.waiting.lock().insert(id.clone(), sender);
            let _waiting = Waiting { poster, id };
            if !self.is_open() {
                return Err(McpErrorKind::StreamClosed);
            }
            // The response may overtake the answer to the POST.
            let post = poster.post_for(id, message);
            tokio::pin!(post);
            let in_answer = tokio::select! {
                biased;
                outcome = &mut on_stream => {
                    return outcome.map_err(|_| McpErrorKind::StreamClosed);
                }
                in_answer = &mut post => in_answer?,
            };
            match in_answer {
                Some(outcome) => Ok(outcome),
                None => on_stream.await.map_err(|_| McpErrorKind::StreamClosed),
            }
        })
    }

    fn notify(&self, message: Bytes) -> TransportFuture<'_, Result<(), McpErrorKind>> {
        Box::pin(async {
            if let Answer::Stream(reader) = self.poster.post(message).await? {
                reader.finish_in_background();
            }
            Ok(())
        })
    }

    fn is_open(&self) -> bool {
        self.poster.open.load(Ordering::Acquire)
    }

    /// The revisions of this transport have no version header.
    fn negotiated(&self, _version: ProtocolVersion) {}

    /// The server sees the stream end when this transport is dropped.
    fn close(&self) -> TransportFuture<'_, ()> {
        Box::pin(async {})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
