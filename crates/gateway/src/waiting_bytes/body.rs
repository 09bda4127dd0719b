use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use axum::body::{Body, Bytes, HttpBody};
use http_body::{Frame, SizeHint};

use super::{ConnectionBytes, CountedBytes, CountedHold, MIN_COUNTED_BYTES};

/// A response body whose buffers count toward the memory limit until they are freed.
pub(super) struct CountedBody {
    body: Body,
    mode: CountingMode,
}

enum CountingMode {
    /// The whole body is in memory.
    WholeBody(Arc<CountedHold>),
    /// Parts are created while the client reads.
    BodyParts(ConnectionBytes),
}

impl CountedBody {
    pub(super) fn for_whole(body: Body, hold: Arc<CountedHold>) -> Self {
        let mode = CountingMode::WholeBody(hold);
        Self { body, mode }
    }

    pub(super) fn for_parts(body: Body, connection: ConnectionBytes) -> Self {
        let mode = CountingMode::BodyParts(connection);
        Self { body, mode }
    }

    pub(super) fn into_body(self) -> Body {
        Body::new(self)
    }
}

impl HttpBody for CountedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let Some(frame) = ready!(Pin::new(&mut self.body).poll_frame(context)) else {
            return Poll::Ready(None);
        };
        let mode = &self.mode;
        Poll::Ready(Some(frame.map(|frame| {
            frame.map_data(|bytes| match mode {
                CountingMode::WholeBody(hold) => count_bytes(bytes, Arc::clone(hold)),
                CountingMode::BodyParts(connection) => {
                    let length = bytes.len() as u64;
                    if length < MIN_COUNTED_BYTES {
                        bytes
                    } else {
                        count_bytes(bytes, Arc::new(connection.hold_part(length)))
                    }
                }
            })
        })))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for CountedBody {
    fn drop(&mut self) {
        if let CountingMode::BodyParts(connection) = &self.mode {
            // The stream has ended, so the bytes that its calls reserved and its events did not use
            // are released.
            connection.begin_request();
        }
    }
}

fn count_bytes(bytes: Bytes, hold: Arc<CountedHold>) -> Bytes {
    Bytes::from_owner(CountedBytes { bytes, _hold: hold })
}
