//! Responses with server-sent events.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderValue};
use axum::response::{IntoResponse, Response};
use futures_util::stream::unfold;
use pillion_chat::Backlog;
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;

use crate::outbox::Outbox;
use pillion_gateway::access::{Heartbeat, TokenValidity};

/// Returns the ID of the last event that the client received, if the client resumes a stream.
pub(super) fn last_event_id(headers: &HeaderMap) -> Option<&str> {
    // The sidecar sends only UTF-8 IDs, so an ID that is not UTF-8 is unknown.
    let id = headers.get("last-event-id")?;
    Some(id.to_str().unwrap_or_default())
}

/// Maximum size of unread events, in bytes, before the job is paused.
const MAX_UNREAD_BYTES: usize = 256 * 1024;

/// A source of server-sent events.
pub(super) trait EventSource: Send + 'static {
    /// Returns the next event, serialized; `None` at the end. The future is cancellation-safe:
    /// dropping the future loses no event.
    fn next(&mut self) -> impl Future<Output = Option<Bytes>> + Send;
}

/// Returns an event stream that takes the next event only when the connection has room for it. The
/// stream ends when the token of the request is no longer valid.
pub(super) fn respond_with_events(
    events: impl EventSource,
    token_validity: TokenValidity,
) -> Response {
    let state = (events, Heartbeat::new(token_validity));
    let stream = unfold(state, async |(mut events, mut heartbeat)| {
        let event = heartbeat.next_event_or_heartbeat(events.next()).await?;
        Some((Ok::<_, Infallible>(event), (events, heartbeat)))
    });
    let body = Body::from_stream(Box::pin(stream));
    let headers = [
        (CONTENT_TYPE, HeaderValue::from_static("text/event-stream")),
        (CACHE_CONTROL, HeaderValue::from_static("no-cache")),
    ];
    (headers, body).into_response()
}

/// Runs the job and streams the events that the job sends, until the client disconnects. The job is
/// paused while too many events are unread. After `max_duration`, the job runs unpaused to its end,
/// which the job's own timeouts bound.
pub(super) fn respond_with_job<F>(
    max_duration: Duration,
    job: impl FnOnce(EventSender) -> F,
) -> Response
where
    F: Future<Output = ()> + Send + 'static,
{
    let events = Arc::new(JobEventQueue {
        outbox: Outbox::new(MAX_UNREAD_BYTES),
        backlog: Backlog::new(MAX_UNREAD_BYTES),
    });
    let job = Box::pin(job(EventSender(Arc::clone(&events))));
    // The job runs in its own task, so that it continues while the client does not read.
    let job_task = tokio::spawn(run_paced(job, Arc::clone(&events), max_duration));
    let job_events = JobEvents {
        events,
        _job: AbortOnDropHandle::new(job_task),
    };
    // The token is not checked again, because a running call is completed even if its token becomes
    // invalid.
    respond_with_events(job_events, TokenValidity::default())
}

/// The events of a job that its client has not read. A full backlog pauses the job.
struct JobEventQueue {
    outbox: Outbox<Bytes>,
    backlog: Backlog,
}

/// Sends events of a job to its stream.
#[derive(Clone)]
pub(super) struct EventSender(Arc<JobEventQueue>);

impl EventSender {
    /// Queues an event. If the stream is closed, the event is never read, and the job is about to
    /// be aborted.
    pub(super) fn send(&self, event: Bytes) {
        self.0.backlog.add(event.len());
        self.0.outbox.send_now(event);
    }
}

/// Runs the job, paused while the backlog is full. After `max_duration`, the job is no longer
/// paused.
async fn run_paced(
    job: impl Future<Output = ()>,
    events: Arc<JobEventQueue>,
    max_duration: Duration,
) {
    /// Ends the stream when the job ends, even if the job panics.
    struct StreamCloser(Arc<JobEventQueue>);
    impl Drop for StreamCloser {
        fn drop(&mut self) {
            self.0.outbox.close();
        }
    }
    let stream_closer = StreamCloser(events);
    let mut job = pin!(job);
    let pace_outcome = timeout(max_duration, stream_closer.0.backlog.pace(job.as_mut())).await;
    if pace_outcome.is_err() {
        job.await;
    }
}

struct JobEvents {
    events: Arc<JobEventQueue>,
    _job: AbortOnDropHandle<()>,
}

impl EventSource for JobEvents {
    async fn next(&mut self) -> Option<Bytes> {
        let event = self.events.outbox.next().await?;
        self.events.backlog.subtract(event.len());
        Some(event)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures_util::StreamExt;
    use tokio::task::yield_now;
    use tokio::time::sleep;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn h6_a_slow_reader_pauses_the_job() {
        let sent = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&sent);
        let response = respond_with_job(Duration::from_secs(60), |outlet| async move {
            for _ in 0..10_000 {
                outlet.send(Bytes::from(vec![b'x'; 1024]));
                counted.fetch_add(1024, Ordering::AcqRel);
                yield_now().await;
            }
        });
        sleep(Duration::from_secs(30)).await;
        let unread = sent.load(Ordering::Acquire);
        assert!(
            (MAX_UNREAD_BYTES..MAX_UNREAD_BYTES + 4096).contains(&unread),
            "{unread}"
        );
        // The job continues as the client reads its events, and all events arrive.
        let body = response.into_body().into_data_stream();
        let read = body.fold(0, async |sum, piece| sum + piece.unwrap().len());
        assert_eq!(read.await, 10_000 * 1024);
    }

    #[tokio::test(start_paused = true)]
    async fn h6_a_job_is_not_paused_beyond_its_deadline() {
        let is_over = Arc::new(AtomicUsize::new(0));
        let noted = Arc::clone(&is_over);
        let _unread = respond_with_job(Duration::from_secs(60), |outlet| async move {
            outlet.send(Bytes::from(vec![b'x'; 2 * MAX_UNREAD_BYTES]));
            yield_now().await;
            noted.store(1, Ordering::Release);
        });
        sleep(Duration::from_secs(59)).await;
        assert_eq!(is_over.load(Ordering::Acquire), 0);
        sleep(Duration::from_secs(2)).await;
        assert_eq!(is_over.load(Ordering::Acquire), 1);
    }
}
