use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep, sleep_until};

use super::receive_tracker::ReceiveTracker;
use super::unread::{UnreadBytes, UnreadCount};
use pillion_gateway::waiting_bytes::ConnectionBytes;

/// Maximum interval between two checks of whether the client reads.
const MAX_CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// Minimum interval between two checks of whether the client reads.
const MIN_CHECK_INTERVAL: Duration = Duration::from_millis(10);

/// Time after which a client that reads nothing counts as stalled. Stalled clients are disconnected
/// when the waiting responses have too many bytes.
const STALL_TIMEOUT: Duration = Duration::from_secs(2);

/// The stall timeout of a client whose progress is visible only in large steps
/// ([`UnreadCount::is_exact`]). A client that reads 4.4 kB/s completes a step of 128 KiB in this
/// time.
const STEP_STALL_TIMEOUT: Duration = Duration::from_secs(30);

/// Multiple of the write timeout after which a client whose progress is visible only in large steps
/// is disconnected. With the default write timeout, a client that reads 1.1 kB/s completes a step
/// of 128 KiB in this time.
const STEP_WRITE_TIMEOUT_FACTOR: u32 = 4;

/// Maximum time for reading further data from a client after the last response was sent, so that
/// the client can receive the response.
const LINGER_TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum number of slices of one write.
const MAX_SLICES: usize = 16;

/// A stream whose writes fail with `TimedOut` if the client has read none of the written bytes for
/// too long. Without this limit, a client that never reads would hold a connection and its response
/// forever.
///
/// The limit depends on what the client reads and not on when the stream becomes writable, because
/// the system reports a writable stream only when a large part of the queue is free, which may take
/// minutes with a slow client.
pub(super) struct SlowClientStream<S> {
    stream: S,
    /// Maximum time that the client may read nothing while written bytes are unread.
    write_timeout: Duration,
    /// The state of a write that waits for the client; `None` if no write waits.
    waiting_write: Option<WaitingWrite>,
    was_cut_off: Arc<AtomicBool>,
    waiting_bytes: ConnectionBytes,
    receive_tracker: ReceiveTracker,
    /// The timeout for reading what the client still sends, once the write side is closed.
    linger_timeout: Option<Pin<Box<Sleep>>>,
}

struct WaitingWrite {
    next_check: Pin<Box<Sleep>>,
    /// The number of unread bytes at the last check; `None` before the first check, or if unknown.
    unread_count: Option<UnreadCount>,
    progress_at: Instant,
}

impl WaitingWrite {
    /// Records the number of unread bytes. Returns whether the client has read something since the
    /// last check.
    fn record_unread(&mut self, unread_count: Option<UnreadCount>, now: Instant) -> bool {
        let has_progressed = unread_count
            .zip(self.unread_count)
            .is_some_and(|(unread_count, previous)| unread_count.has_shrunk_since(previous));
        if has_progressed {
            self.progress_at = now;
        }
        self.unread_count = unread_count;
        has_progressed
    }

    /// Returns the time at which the client counts as stalled, and the time at which it is
    /// disconnected.
    fn deadlines(&self, write_timeout: Duration) -> (Instant, Instant) {
        let (stall_timeout, disconnect_timeout) = match self.unread_count {
            Some(count) if !count.is_exact => (
                STEP_STALL_TIMEOUT,
                write_timeout * STEP_WRITE_TIMEOUT_FACTOR,
            ),
            _ => (STALL_TIMEOUT, write_timeout),
        };
        (
            self.progress_at + stall_timeout,
            self.progress_at + disconnect_timeout,
        )
    }
}

impl<S: UnreadBytes> SlowClientStream<S> {
    /// Wraps `stream`. `was_cut_off` is set when a write fails because the client does not read.
    pub(super) fn new(
        stream: S,
        write_timeout: Duration,
        was_cut_off: Arc<AtomicBool>,
        waiting_bytes: ConnectionBytes,
        receive_tracker: ReceiveTracker,
    ) -> Self {
        Self {
            stream,
            write_timeout,
            waiting_write: None,
            was_cut_off,
            waiting_bytes,
            receive_tracker,
            linger_timeout: None,
        }
    }

    /// Returns the outcome of a write, or an error if the client has read nothing for too long.
    fn limit_write<T>(
        &mut self,
        outcome: Poll<io::Result<T>>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<T>> {
        if outcome.is_ready() {
            if self.waiting_write.take().is_some() {
                self.waiting_bytes.clear_stall();
            }
            return outcome;
        }
        let write_timeout = self.write_timeout;
        let interval = (write_timeout / 8).clamp(MIN_CHECK_INTERVAL, MAX_CHECK_INTERVAL);
        let stream = &self.stream;
        // The first check is delayed by one interval, because most clients have read by then and
        // need no check.
        let waiting_write = self.waiting_write.get_or_insert_with(|| WaitingWrite {
            next_check: Box::pin(sleep(interval)),
            unread_count: None,
            progress_at: Instant::now(),
        });
        loop {
            ready!(waiting_write.next_check.as_mut().poll(context));
            let now = Instant::now();
            if pillion_deadline::was_stopped(waiting_write.next_check.deadline()) {
                // If a check is late, its delay does not count as a stall, because this process was
                // suspended, and possibly the client as well.
                waiting_write.progress_at += now - waiting_write.next_check.deadline();
            }
            if waiting_write.record_unread(stream.unread_count(), now) {
                self.waiting_bytes.clear_stall();
            }
            let (stalls_at, deadline) = waiting_write.deadlines(write_timeout);
            let must_close =
                now >= stalls_at && self.waiting_bytes.record_stall(waiting_write.progress_at);
            if now >= deadline || must_close {
                self.waiting_write = None;
                self.was_cut_off.store(true, Ordering::Relaxed);
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
            let mut next_check = (now + interval).min(deadline);
            if stalls_at > now {
                next_check = next_check.min(stalls_at);
            }
            waiting_write.next_check.as_mut().reset(next_check);
        }
    }
}

impl<S> Drop for SlowClientStream<S> {
    fn drop(&mut self) {
        // The stall is cleared explicitly, because a call in progress may still hold a clone of
        // `waiting_bytes`.
        self.waiting_bytes.clear_stall();
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for SlowClientStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let filled_before = buffer.filled().len();
        let outcome = Pin::new(&mut self.stream).poll_read(context, buffer);
        if buffer.filled().len() > filled_before {
            self.receive_tracker.record_received();
        }
        outcome
    }
}

impl<S: AsyncRead + AsyncWrite + UnreadBytes + Unpin> SlowClientStream<S> {
    /// Reads and drops what the client still sends, until the client closes the connection or the
    /// timeout ends. If a socket were closed with unread data, the response would be discarded
    /// before the client has read it (RFC 9112, section 9.6).
    fn linger(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let timeout = self
            .linger_timeout
            .get_or_insert_with(|| Box::pin(sleep_until(Instant::now() + LINGER_TIMEOUT)));
        if timeout.as_mut().poll(context).is_ready() {
            return Poll::Ready(());
        }
        let mut discarded_bytes = [0; 4096];
        loop {
            let mut buffer = ReadBuf::new(&mut discarded_bytes);
            let read_poll = Pin::new(&mut self.stream).poll_read(context, &mut buffer);
            if ready!(read_poll).is_err() || buffer.filled().is_empty() {
                return Poll::Ready(());
            }
        }
    }
}

impl<S: AsyncRead + AsyncWrite + UnreadBytes + Unpin> AsyncWrite for SlowClientStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &[u8],
    ) -> Poll<io::Result<usize>> {
        let buffer = &buffer[..buffer.len().min(S::MAX_WRITE_BYTES)];
        let outcome = Pin::new(&mut self.stream).poll_write(context, buffer);
        self.limit_write(outcome, context)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let outcome = Pin::new(&mut self.stream).poll_flush(context);
        self.limit_write(outcome, context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.linger_timeout.is_none() {
            let outcome = Pin::new(&mut self.stream).poll_shutdown(context);
            ready!(self.limit_write(outcome, context))?;
            if !self.receive_tracker.has_unread() {
                return Poll::Ready(Ok(()));
            }
        }
        self.linger(context).map(Ok)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let total: usize = buffers.iter().map(|buffer| buffer.len()).sum();
        let outcome = if total <= S::MAX_WRITE_BYTES {
            Pin::new(&mut self.stream).poll_write_vectored(context, buffers)
        } else {
            let mut slices = [io::IoSlice::new(&[]); MAX_SLICES];
            let count = fill_slices(buffers, S::MAX_WRITE_BYTES, &mut slices);
            Pin::new(&mut self.stream).poll_write_vectored(context, &slices[..count])
        };
        self.limit_write(outcome, context)
    }
}

/// Puts the first `max` bytes of `buffers` into `slices`. Returns the number of used slices.
fn fill_slices<'a>(
    buffers: &'a [io::IoSlice<'a>],
    mut max: usize,
    slices: &mut [io::IoSlice<'a>; MAX_SLICES],
) -> usize {
    let mut count = 0;
    let nonempty_buffers = buffers.iter().filter(|buffer| !buffer.is_empty());
    for (slice, buffer) in slices.iter_mut().zip(nonempty_buffers) {
        if max == 0 {
            break;
        }
        let length = buffer.len().min(max);
        *slice = io::IoSlice::new(&buffer[..length]);
        max -= length;
        count += 1;
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

    use pillion_gateway::waiting_bytes::WaitingBytes;

    impl UnreadBytes for DuplexStream {
        const MAX_WRITE_BYTES: usize = usize::MAX;

        fn unread_count(&self) -> Option<UnreadCount> {
            None
        }
    }

    fn slow_client<S: UnreadBytes>(
        stream: S,
        write_timeout: Duration,
        was_cut_off: &Arc<AtomicBool>,
    ) -> SlowClientStream<S> {
        let waiting_bytes = WaitingBytes::default().add_connection(u64::MAX);
        let (was_cut_off, tracker) = (Arc::clone(was_cut_off), ReceiveTracker::default());
        SlowClientStream::new(stream, write_timeout, was_cut_off, waiting_bytes, tracker)
    }

    #[tokio::test(start_paused = true)]
    async fn slow_readers_are_waited_for_and_stopped_readers_are_not() {
        let (mut reader, stream) = duplex(16);
        let was_cut_off = Arc::new(AtomicBool::new(false));
        let mut stream = slow_client(stream, Duration::from_secs(10), &was_cut_off);
        let writer = tokio::spawn(async move { stream.write_all(&[7; 160]).await });
        let mut buffer = [0; 16];
        for _ in 0..4 {
            tokio::time::sleep(Duration::from_secs(9)).await;
            reader.read_exact(&mut buffer).await.unwrap();
        }
        assert!(!writer.is_finished());
        let error = writer.await.unwrap().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(was_cut_off.load(Ordering::Relaxed));
    }

    #[tokio::test(start_paused = true)]
    async fn h6_a_client_whose_reading_shows_in_steps_has_time_for_a_step() {
        let now = Instant::now();
        let unread_count = |bytes, is_exact| Some(UnreadCount { bytes, is_exact });
        let mut waiting = WaitingWrite {
            next_check: Box::pin(sleep(Duration::ZERO)),
            unread_count: unread_count(1_000_000, false),
            progress_at: now,
        };
        // The receive window of a client that reads 1.1 kB/s opens every 119 s.
        let mut at = now;
        for steps in 1..4 {
            for _ in 0..118 {
                at += Duration::from_secs(1);
                let current = unread_count(1_000_000 - (steps - 1) * 128 * 1024, false);
                assert!(!waiting.record_unread(current, at));
                assert!(at < waiting.deadlines(Duration::from_secs(30)).1);
            }
            at += Duration::from_secs(1);
            assert!(waiting.record_unread(unread_count(1_000_000 - steps * 128 * 1024, false), at));
        }
        // If the system reports exact sizes, a single byte shows that the client has read data.
        let times = |waiting: &WaitingWrite| waiting.deadlines(Duration::from_secs(30));
        assert!(!waiting.record_unread(unread_count(500_000, true), at));
        assert!(waiting.record_unread(unread_count(499_999, true), at + Duration::from_secs(1)));
        let stalled = (Duration::from_secs(3), Duration::from_secs(31));
        assert_eq!(times(&waiting), (at + stalled.0, at + stalled.1));
    }

    #[test]
    fn a_write_has_a_maximum_size() {
        let bytes = [1, 2, 3, 4, 5, 6];
        let buffers = [&bytes[..2], &[], &bytes[2..5], &bytes[5..]].map(io::IoSlice::new);
        for (max, expected) in [(1, vec![1]), (4, vec![1, 2, 3, 4]), (9, bytes.to_vec())] {
            let mut slices = [io::IoSlice::new(&[]); MAX_SLICES];
            let count = fill_slices(&buffers, max, &mut slices);
            let taken: Vec<u8> = slices[..count]
                .iter()
                .flat_map(|slice| slice.to_vec())
                .collect();
            assert_eq!(taken, expected, "{max}");
        }
    }
}
