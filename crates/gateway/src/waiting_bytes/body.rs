use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use axum::body::{Body, Bytes, HttpBody};
use http_body::{Frame, SizeHint};

use super::{ConnectionBytes, CountedBytes, Hold, MIN_COUNTED_BYTES};

/// A response body whose buffers are counted until they are freed.
pub(super) struct CountedBody {
    body: Body,
    count: Count,
}

enum Count {
    /// The whole body is in memory.
    Whole(Arc<Hold>),
    /// Parts are created while the client reads.
    Parts(ConnectionBytes),
}

impl CountedBody {
    pub(super) fn whole(body: Body, hold: Arc<Hold>) -> Self {
        let count = Count::Whole(hold);
        Self { body, count }
    }

    pub(super) fn parts(body: Body, connection: ConnectionBytes) -> Self {
        let count = Count::Parts(connection);
        Self { body, count }
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
        let count = &self.count;
        Poll::Ready(Some(frame.map(|frame| {
            frame.map_data(|bytes| match count {
                Count::Whole(hold) => counted(bytes, Arc::clone(hold)),
                Count::Parts(connection) => {
                    let length = bytes.len() as u64;
                    if length < MIN_COUNTED_BYTES {
                        bytes
                    } else {
                        counted(bytes, Arc::new(connection.hold_part(length)))
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
        if let Count::Parts(connection) = &self.count {
            // Calls of the stream may have reserved bytes that no event has used.
            connection.begin_request();
        }
    }
}

fn counted(bytes: Bytes, hold: Arc<Hold>) -> Bytes {
    Bytes::from_owner(CountedBytes { bytes, _hold: hold })
}
