use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Instant;

use axum::body::{Body, Bytes, HttpBody};
use axum::response::Response;
use hyper::body::{Frame, SizeHint};
use parking_lot::Mutex;

/// Counts the response bytes that wait for clients, in total and for each connection. Cheap to
/// clone.
#[derive(Debug, Clone)]
pub(super) struct WaitingBytes(Arc<WaitingBytesState>);

#[derive(Debug)]
struct WaitingBytesState {
    began: Instant,
    total: AtomicU64,
    connections: Mutex<Connections>,
}

#[derive(Debug, Default)]
struct Connections {
    next: u64,
    shares: BTreeMap<u64, Arc<ConnectionBytes>>,
}

/// The bytes that wait on one connection.
#[derive(Debug)]
struct ConnectionBytes {
    bytes: AtomicU64,
    /// When the client last read something, in milliseconds since the server started.
    progress_ms: AtomicU64,
}

/// The counter of one connection. Cheap to clone; clones share one counter.
#[derive(Debug, Clone)]
pub(super) struct ConnectionByteCounter(Arc<Registered>);

/// A share that is registered until dropped.
#[derive(Debug)]
struct Registered {
    all: WaitingBytes,
    number: u64,
    share: Arc<ConnectionBytes>,
}

impl WaitingBytes {
    pub(super) fn new() -> Self {
        Self(Arc::new(WaitingBytesState {
            began: Instant::now(),
            total: AtomicU64::new(0),
            connections: Mutex::default(),
        }))
    }

    /// Returns the counter of a new connection.
    pub(super) fn share(&self) -> ConnectionByteCounter {
        let share = Arc::new(ConnectionBytes {
            bytes: AtomicU64::new(0),
            progress_ms: AtomicU64::new(self.now()),
        });
        let mut connections = self.0.connections.lock();
        let number = connections.next;
        connections.next += 1;
        connections.shares.insert(number, Arc::clone(&share));
        drop(connections);
        ConnectionByteCounter(Arc::new(Registered {
            all: self.clone(),
            number,
            share,
        }))
    }

    fn now(&self) -> u64 {
        u64::try_from(self.0.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

impl ConnectionByteCounter {
    /// Starts a new response; the bytes of the previous response no longer count.
    pub(super) fn begin_answer(&self) {
        self.0.forget();
    }

    /// Counts the body of a response: at once if its length is known, otherwise as it is written.
    pub(super) fn count(&self, response: Response) -> Response {
        match response.body().size_hint().exact() {
            Some(0) => response,
            Some(bytes) => {
                self.add(bytes);
                response
            }
            None => response.map(|body| {
                Body::new(Counted {
                    body,
                    share: self.clone(),
                })
            }),
        }
    }

    fn add(&self, bytes: u64) {
        let Registered { all, share, .. } = &*self.0;
        share.bytes.fetch_add(bytes, Ordering::Relaxed);
        all.0.total.fetch_add(bytes, Ordering::Relaxed);
        self.record_progress();
    }

    /// Subtracts written bytes, which may include response heads.
    pub(super) fn record_written(&self, bytes: u64) {
        let Registered { all, share, .. } = &*self.0;
        let known = share.bytes.load(Ordering::Relaxed);
        // Only this connection subtracts bytes, and concurrently added bytes are kept.
        let written = known.min(bytes);
        share.bytes.fetch_sub(written, Ordering::Relaxed);
        all.0.total.fetch_sub(written, Ordering::Relaxed);
    }

    /// Records that the client has read something.
    pub(super) fn record_progress(&self) {
        let Registered { all, share, .. } = &*self.0;
        share.progress_ms.store(all.now(), Ordering::Relaxed);
    }

    /// Returns whether this connection is to be closed because its client has stalled and more than
    /// `limit` bytes wait in total. The clients that have read nothing for the longest time are
    /// disconnected first.
    ///
    /// Each connection calls this after checking whether its own client reads: the state of other
    /// connections may be outdated.
    pub(super) fn should_close(&self, limit: u64) -> bool {
        let Registered { all, number, .. } = &*self.0;
        let mut left = all.0.total.load(Ordering::Relaxed);
        if left <= limit {
            return false;
        }
        let connections = all.0.connections.lock();
        let shares = connections.shares.iter().map(|(number, share)| {
            let bytes = share.bytes.load(Ordering::Relaxed);
            (share.progress_ms.load(Ordering::Relaxed), *number, bytes)
        });
        let mut waiting: Vec<_> = shares.filter(|(_, _, bytes)| *bytes > 0).collect();
        drop(connections);
        waiting.sort_unstable();
        for (_, other, bytes) in waiting {
            if left <= limit {
                return false;
            }
            if other == *number {
                return true;
            }
            left = left.saturating_sub(bytes);
        }
        false
    }
}

impl Registered {
    /// Resets the counted bytes to zero.
    fn forget(&self) {
        let bytes = self.share.bytes.swap(0, Ordering::Relaxed);
        self.all.0.total.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.forget();
        self.all.0.connections.lock().shares.remove(&self.number);
    }
}

/// A body of unknown length, counted as its frames are taken for writing.
struct Counted {
    body: Body,
    share: ConnectionByteCounter,
}

impl HttpBody for Counted {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        if let Some(Ok(frame)) = &frame
            && let Some(data) = frame.data_ref()
        {
            self.share.add(data.len() as u64);
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn h6_the_reader_that_has_been_idle_longest_is_disconnected_first() {
        let all = WaitingBytes::new();
        let shares = [(); 3].map(|()| all.share());
        for (share, progress_at) in shares.iter().zip([5_000, 1_000, 9_000]) {
            share.add(60);
            share
                .0
                .share
                .progress_ms
                .store(progress_at, Ordering::Relaxed);
        }
        let give_way = |limit| shares.each_ref().map(|share| share.should_close(limit));
        assert_eq!(all.0.total.load(Ordering::Relaxed), 180);
        assert_eq!(give_way(180), [false; 3]);
        assert_eq!(give_way(150), [false, true, false]);
        assert_eq!(give_way(119), [true, true, false]);
        shares[0].record_written(50);
        assert_eq!(give_way(70), [false, true, false]);
        // A connection without waiting bytes is never closed.
        shares[1].begin_answer();
        assert_eq!(give_way(60), [true, false, false]);
        drop(shares);
        assert_eq!(all.0.total.load(Ordering::Relaxed), 0);
    }
}
