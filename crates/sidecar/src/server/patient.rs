use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

/// A stream whose reader has so long to take something of what is written; then writing
/// fails with `TimedOut`. Without it a client that never reads holds a connection, and the
/// answer, for ever.
pub(super) struct Patient<S> {
    stream: S,
    patience: Duration,
    /// Runs while a write waits.
    waiting: Option<Pin<Box<Sleep>>>,
    was_cut_off: Arc<AtomicBool>,
}

impl<S> Patient<S> {
    /// `was_cut_off` is set when patience is over.
    pub(super) fn new(stream: S, patience: Duration, was_cut_off: Arc<AtomicBool>) -> Self {
        Self {
            stream,
            patience,
            waiting: None,
            was_cut_off,
        }
    }

    /// The outcome of a write, or an error if there has been none for too long.
    fn limited<T>(
        &mut self,
        outcome: Poll<io::Result<T>>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<T>> {
        if outcome.is_ready() {
            self.waiting = None;
            return outcome;
        }
        let patience = self.patience;
        let waiting = self
            .waiting
            .get_or_insert_with(|| Box::pin(sleep(patience)));
        ready!(waiting.as_mut().poll(context));
        waiting.as_mut().reset(Instant::now() + patience);
        self.was_cut_off.store(true, Ordering::Relaxed);
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Patient<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &[u8],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.stream).poll_write(context, buffer);
        self.limited(outcome, context)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let outcome = Pin::new(&mut self.stream).poll_flush(context);
        self.limited(outcome, context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let outcome = Pin::new(&mut self.stream).poll_shutdown(context);
        self.limited(outcome, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.stream).poll_write_vectored(context, buffers);
        self.limited(outcome, context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    #[tokio::test(start_paused = true)]
    async fn a_reader_that_takes_its_time_is_waited_for_and_one_that_stops_is_not() {
        let (mut reader, stream) = duplex(16);
        let was_cut_off = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&was_cut_off);
        let mut stream = Patient::new(stream, Duration::from_secs(10), flag);
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
}
