use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use rustix::net::{RecvFlags, recv};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use crate::CooperativeStream;

/// A handle that makes the next read of a [`WatchedStream`] check the socket with a system call.
///
/// The runtime detects a close only when the runtime polls the operating system between tasks.
/// Until then, a read returns `Pending` even if the server has closed the connection.
#[derive(Clone, Default)]
pub(super) struct SocketCheck(Arc<AtomicBool>);

impl SocketCheck {
    /// Makes the next read of the stream check the socket.
    pub(super) fn request(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Returns whether the stream has not been read since the check was requested.
    pub(super) fn is_pending(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// A stream that checks the socket itself on request: if the server has closed the connection, or
/// sent any data, the next read fails.
pub(super) struct WatchedStream {
    stream: CooperativeStream<TcpStream>,
    check: SocketCheck,
}

impl WatchedStream {
    pub(super) fn new(stream: TcpStream) -> (Self, SocketCheck) {
        let check = SocketCheck::default();
        let watched_stream = Self {
            stream: CooperativeStream::new(stream),
            check: check.clone(),
        };
        (watched_stream, check)
    }

    /// Returns whether nothing has arrived on the socket: no data, no end of the stream and no
    /// error.
    fn is_quiet(&self) -> bool {
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        recv(self.stream.get_ref(), &mut [0_u8; 1][..], flags) == Err(rustix::io::Errno::AGAIN)
    }
}

impl AsyncRead for WatchedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.check.is_pending() {
            self.check.0.store(false, Ordering::Relaxed);
            if !self.is_quiet() {
                return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
            }
        }
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for WatchedStream {
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
