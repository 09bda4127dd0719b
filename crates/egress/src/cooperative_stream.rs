use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};
use tokio::task::coop::poll_proceed;

/// Maximum number of bytes of one read.
const MAX_READ_BYTES: u64 = 16 * 1024;

/// Number of bytes that use up one unit of a task's budget. A task has a budget of 128 units until
/// it yields.
const BYTES_PER_UNIT: usize = 512;

/// A stream whose bytes count toward the budget of the task that reads them.
///
/// Tokio counts only the number of reads, but one read can return many small frames. Without this
/// type, a peer that sends frames of one or two bytes could occupy the thread of the task that
/// handles the frames.
#[derive(Debug)]
pub struct CooperativeStream<S> {
    stream: S,
}

impl<S> CooperativeStream<S> {
    /// Wraps a stream.
    pub fn new(stream: S) -> Self {
        Self { stream }
    }

    pub(crate) fn get_ref(&self) -> &S {
        &self.stream
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for CooperativeStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let filled_len = buffer.filled().len();
        let mut limited_stream = (&mut self.stream).take(MAX_READ_BYTES);
        let poll = Pin::new(&mut limited_stream).poll_read(context, buffer);
        for _ in 0..(buffer.filled().len() - filled_len) / BYTES_PER_UNIT {
            match poll_proceed(context) {
                Poll::Ready(unit) => unit.made_progress(),
                Poll::Pending => break,
            }
        }
        poll
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for CooperativeStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
