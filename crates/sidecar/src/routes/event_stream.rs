//! Answers that are a stream of server-sent events.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::HeaderValue;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use futures_util::stream::unfold;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;

/// How often something is sent where nothing happens: so it is seen when the client has gone.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// Where the events of an answer come from.
pub(super) trait Events: Send + 'static {
    /// The next event as it is written; none at the end. The future may be dropped, and nothing is
    /// lost.
    fn next(&mut self) -> impl Future<Output = Option<Bytes>> + Send;
}

/// The answer that takes the next event when the connection has room for it, and not before.
pub(super) fn of(events: impl Events) -> Response {
    let body = Body::from_stream(Box::pin(unfold(events, async |mut events| {
        let next = match timeout(HEARTBEAT, events.next()).await {
            Ok(next) => next?,
            Err(_) => Bytes::from_static(b": \n\n"),
        };
        Some((Ok::<_, Infallible>(next), events))
    })));
    let headers = [
        (CONTENT_TYPE, HeaderValue::from_static("text/event-stream")),
        (CACHE_CONTROL, HeaderValue::from_static("no-cache")),
    ];
    (headers, body).into_response()
}

/// Runs the job for as long as somebody reads, and answers with the events that it sends. It
/// bounds them itself: what is not read yet is kept.
pub(super) fn response<F>(job: impl FnOnce(UnboundedSender<Bytes>) -> F) -> Response
where
    F: Future<Output = ()> + Send + 'static,
{
    let (sender, events) = unbounded_channel();
    of(OfJob {
        events,
        // A task of its own, for it goes on while nobody reads.
        _job: AbortOnDropHandle::new(tokio::spawn(job(sender))),
    })
}

struct OfJob {
    events: UnboundedReceiver<Bytes>,
    _job: AbortOnDropHandle<()>,
}

impl Events for OfJob {
    async fn next(&mut self) -> Option<Bytes> {
        self.events.recv().await
    }
}
