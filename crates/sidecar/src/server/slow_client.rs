use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep, sleep_until};

use super::receive_tracker::ReceiveTracker;
use super::unsent::SendQueue;
use super::waiting_bytes::ConnectionByteCounter;

/// Maximum and minimum interval between two checks of whether the client reads.
const MAX_INTERVAL: Duration = Duration::from_secs(1);
const MIN_INTERVAL: Duration = Duration::from_millis(10);

/// Time after which a client that reads nothing counts as stalled. Stalled clients are disconnected
/// when too many bytes wait.
const STALL_TIMEOUT: Duration = Duration::from_secs(2);

/// Maximum time to read further data from a client after its response, so that the client can
/// notice the response.
const LINGER_TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum number of slices of one write.
const MAX_SLICES: usize = 16;

/// A stream that limits the time in which the client reads nothing of what was written; after that,
/// writes fail with `TimedOut`. Without this limit, a client that never reads would hold a
/// connection and its response forever.
///
/// The limit counts what the client reads, not when the stream becomes writable: the system reports
/// a writable stream only when a large part of the queue is free, which may take minutes with a
/// slow client.
pub(super) struct SlowClientStream<S> {
    stream: S,
    limits: Limits,
    /// Set while a write waits.
    waiting: Option<Waiting>,
    was_cut_off: Arc<AtomicBool>,
    share: ConnectionByteCounter,
    receive_tracker: ReceiveTracker,
    /// Set after the write side was closed, while the client may still send.
    lingering: Option<Pin<Box<Sleep>>>,
}

/// Limits for slow clients.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// Maximum time in which a client reads nothing.
    pub(super) write_timeout: Duration,
    /// Maximum number of bytes that wait for all clients together.
    pub(super) max_waiting_bytes: u64,
}

struct Waiting {
    next_look: Pin<Box<Sleep>>,
    unsent: Option<u64>,
    progress_at: Instant,
}

impl<S: SendQueue> SlowClientStream<S> {
    /// Wraps `stream`. `was_cut_off` is set when a write fails because the client does not read.
    pub(super) fn new(
        stream: S,
        limits: Limits,
        was_cut_off: Arc<AtomicBool>,
        share: ConnectionByteCounter,
        receive_tracker: ReceiveTracker,
    ) -> Self {
        Self {
            stream,
            limits,
            waiting: None,
            was_cut_off,
            share,
            receive_tracker,
            lingering: None,
        }
    }

    /// Returns the outcome of a write, or an error if the client has read nothing for too long.
    fn limited<T>(
        &mut self,
        outcome: Poll<io::Result<T>>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<T>> {
        if outcome.is_ready() {
            if self.waiting.take().is_some() {
                self.share.record_progress();
            }
            return outcome;
        }
        let Limits {
            write_timeout,
            max_waiting_bytes,
        } = self.limits;
        let interval = (write_timeout / 8).clamp(MIN_INTERVAL, MAX_INTERVAL);
        let stream = &self.stream;
        let waiting = self.waiting.get_or_insert_with(|| Waiting {
            next_look: Box::pin(sleep(interval)),
            unsent: stream.unsent(),
            progress_at: Instant::now(),
        });
        loop {
            ready!(waiting.next_look.as_mut().poll(context));
            let now = Instant::now();
            let unsent = stream.unsent();
            if unsent < waiting.unsent {
                waiting.progress_at = now;
                self.share.record_progress();
            }
            waiting.unsent = unsent;
            let deadline = waiting.progress_at + write_timeout;
            let has_stalled = now >= waiting.progress_at + STALL_TIMEOUT;
            let gives_way = has_stalled && self.share.should_close(max_waiting_bytes);
            if now >= deadline || gives_way {
                self.waiting = None;
                self.was_cut_off.store(true, Ordering::Relaxed);
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
            let next_look = (now + interval).min(deadline);
            waiting.next_look.as_mut().reset(next_look);
        }
    }

    fn wrote(&self, outcome: &Poll<io::Result<usize>>) {
        if let Poll::Ready(Ok(bytes)) = outcome {
            self.share.record_written(*bytes as u64);
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for SlowClientStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let outcome = Pin::new(&mut self.stream).poll_read(context, buffer);
        if buffer.filled().len() > before {
            self.receive_tracker.record_received();
        }
        outcome
    }
}

impl<S: AsyncRead + AsyncWrite + SendQueue + Unpin> SlowClientStream<S> {
    /// Reads and drops what the client still sends, until the client closes the connection or the
    /// timeout ends. A socket that is closed with unread data discards the response of a client
    /// that has not read it yet (RFC 9112, section 9.6).
    fn linger(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let until = self
            .lingering
            .get_or_insert_with(|| Box::pin(sleep_until(Instant::now() + LINGER_TIMEOUT)));
        if until.as_mut().poll(context).is_ready() {
            return Poll::Ready(());
        }
        let mut space = [0; 4096];
        loop {
            let mut buffer = ReadBuf::new(&mut space);
            let read = Pin::new(&mut self.stream).poll_read(context, &mut buffer);
            if ready!(read).is_err() || buffer.filled().is_empty() {
                return Poll::Ready(());
            }
        }
    }
}

impl<S: AsyncRead + AsyncWrite + SendQueue + Unpin> AsyncWrite for SlowClientStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &[u8],
    ) -> Poll<io::Result<usize>> {
        let buffer = &buffer[..buffer.len().min(S::MAX_WRITE)];
        let outcome = Pin::new(&mut self.stream).poll_write(context, buffer);
        self.wrote(&outcome);
        self.limited(outcome, context)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let outcome = Pin::new(&mut self.stream).poll_flush(context);
        self.limited(outcome, context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.lingering.is_none() {
            let outcome = Pin::new(&mut self.stream).poll_shutdown(context);
            ready!(self.limited(outcome, context))?;
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
        let outcome = if total <= S::MAX_WRITE {
            Pin::new(&mut self.stream).poll_write_vectored(context, buffers)
        } else {
            let mut slices = [io::IoSlice::new(&[]); MAX_SLICES];
            let count = first_bytes(buffers, S::MAX_WRITE, &mut slices);
            Pin::new(&mut self.stream).poll_write_vectored(context, &slices[..count])
        };
        self.wrote(&outcome);
        self.limited(outcome, context)
    }
}

/// Puts the first `most` bytes of `buffers` into `slices`. Returns the number of used slices.
fn first_bytes<'a>(
    buffers: &'a [io::IoSlice<'a>],
    mut most: usize,
    slices: &mut [io::IoSlice<'a>; MAX_SLICES],
) -> usize {
    let mut count = 0;
    let filled = buffers.iter().filter(|buffer| !buffer.is_empty());
    for (slice, buffer) in slices.iter_mut().zip(filled) {
        if most == 0 {
            break;
        }
        let length = buffer.len().min(most);
        *slice = io::IoSlice::new(&buffer[..length]);
        most -= length;
        count += 1;
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

    use super::super::waiting_bytes::WaitingBytes;

    impl SendQueue for DuplexStream {
        const MAX_WRITE: usize = usize::MAX;

        fn unsent(&self) -> Option<u64> {
            None
        }
    }

    fn slow_client<S: SendQueue>(
        stream: S,
        write_timeout: Duration,
        was_cut_off: &Arc<AtomicBool>,
    ) -> SlowClientStream<S> {
        let limits = Limits {
            write_timeout,
            max_waiting_bytes: u64::MAX,
        };
        let share = WaitingBytes::new().share();
        let was_cut_off = Arc::clone(was_cut_off);
        SlowClientStream::new(
            stream,
            limits,
            was_cut_off,
            share,
            ReceiveTracker::default(),
        )
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

    #[test]
    fn a_write_has_a_maximum_size() {
        let bytes = [1, 2, 3, 4, 5, 6];
        let buffers = [&bytes[..2], &[], &bytes[2..5], &bytes[5..]].map(io::IoSlice::new);
        for (most, expected) in [(1, vec![1]), (4, vec![1, 2, 3, 4]), (9, bytes.to_vec())] {
            let mut slices = [io::IoSlice::new(&[]); MAX_SLICES];
            let count = first_bytes(&buffers, most, &mut slices);
            let taken: Vec<u8> = slices[..count]
                .iter()
                .flat_map(|slice| slice.to_vec())
                .collect();
            assert_eq!(taken, expected, "{most}");
        }
    }
}
