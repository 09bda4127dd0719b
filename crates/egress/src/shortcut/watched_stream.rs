use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use rustix::net::{RecvFlags, recv};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// A request to look at the socket itself with the next read.
///
/// The runtime learns of a close only when it polls the operating system, which it does between
/// tasks: until then, a read says that nothing has arrived.
#[derive(Clone, Default)]
pub(super) struct SocketLook(Arc<AtomicBool>);

impl SocketLook {
    /// Lets the next read look at the socket.
    pub(super) fn request(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Returns whether the next read is still to look at the socket.
    pub(super) fn is_pending(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// A stream that can be told to look at the socket itself: if the server has closed the connection,
/// or sent anything, the read fails.
pub(super) struct WatchedStream {
    stream: TcpStream,
    look: SocketLook,
}

impl WatchedStream {
    pub(super) fn new(stream: TcpStream) -> (Self, SocketLook) {
        let look = SocketLook::default();
        let watched = Self {
            stream,
            look: look.clone(),
        };
        (watched, look)
    }

    /// Returns whether nothing has arrived: neither data, nor the end of the stream, nor an error.
    fn is_quiet(&self) -> bool {
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        recv(&self.stream, &mut [0_u8; 1][..], flags) == Err(rustix::io::Errno::AGAIN)
    }
}

impl AsyncRead for WatchedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.look.is_pending() {
            self.look.0.store(false, Ordering::Relaxed);
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
