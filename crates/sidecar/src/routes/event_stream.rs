//! An answer that is a stream of server-sent events, made while it is read.

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

/// Runs the job for as long as somebody reads, and answers with the events that it sends. It
/// bounds them itself: what is not read yet is kept.
pub(super) fn response<F>(job: impl FnOnce(UnboundedSender<Bytes>) -> F) -> Response
where
    F: Future<Output = ()> + Send + 'static,
{
    let (sender, events) = unbounded_channel();
    // A task of its own, for it goes on while nobody reads.
    let stream = Stream {
        events,
        _job: AbortOnDropHandle::new(tokio::spawn(job(sender))),
    };
    let body = Body::from_stream(Box::pin(unfold(stream, async |mut stream| {
        let next = match timeout(HEARTBEAT, stream.events.recv()).await {
            Ok(next) => next?,
            Err(_) => Bytes::from_static(b": \n\n"),
        };
        Some((Ok::<_, Infallible>(next), stream))
    })));
    let headers = [
        (CONTENT_TYPE, HeaderValue::from_static("text/event-stream")),
        (CACHE_CONTROL, HeaderValue::from_static("no-cache")),
    ];
    (headers, body).into_response()
}

struct Stream {
    events: UnboundedReceiver<Bytes>,
    _job: AbortOnDropHandle<()>,
}
