use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use axum::body::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};

/// Tracks whether a client has sent bytes that were not read. If so, closing the connection would
/// discard the response.
#[derive(Debug, Clone, Default)]
pub(super) struct ReceiveTracker(Arc<AtomicBool>);

impl ReceiveTracker {
    /// Records that the client has sent bytes that were not read as part of a request yet.
    pub(super) fn record_received(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Records that all received bytes belong to requests that were read to their end.
    fn record_finished(&self) {
        self.0.store(false, Ordering::Relaxed);
    }

    pub(super) fn has_unread(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// A request body that notifies the tracker when it was read to its end.
#[derive(Debug)]
pub(super) struct TrackedBody {
    body: Incoming,
    receive_tracker: ReceiveTracker,
}

impl TrackedBody {
    pub(super) fn new(body: Incoming, receive_tracker: &ReceiveTracker) -> Self {
        if body.is_end_stream() {
            receive_tracker.record_finished();
        }
        Self {
            body,
            receive_tracker: receive_tracker.clone(),
        }
    }
}

impl Body for TrackedBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(context);
        let is_last = matches!(frame, Poll::Ready(None)) || self.body.is_end_stream();
        if is_last {
            self.receive_tracker.record_finished();
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
