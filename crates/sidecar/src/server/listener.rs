use std::io;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};

use crate::access::Peer;

/// How long to wait after an `accept` that failed, which means that the process is out of
/// descriptors: trying again at once would only burn the processor.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Something that connections come from.
pub(super) trait Listener {
    type Stream: AsyncRead + AsyncWrite + Send + Unpin + 'static;

    /// The next connection, and who is at its other end.
    async fn next(&self) -> io::Result<(Self::Stream, Peer)>;

    /// As [`next`](Self::next), whatever goes wrong on the way.
    async fn accept(&self) -> (Self::Stream, Peer) {
        loop {
            match self.next().await {
                Ok(accepted) => return accepted,
                Err(error) => {
                    tracing::warn!(%error, "Cannot accept a connection");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }
}

impl Listener for UnixListener {
    type Stream = UnixStream;

    async fn next(&self) -> io::Result<(UnixStream, Peer)> {
        let (stream, _) = UnixListener::accept(self).await?;
        let process = stream.peer_cred()?;
        let peer = Peer::Process {
            uid: process.uid(),
            gid: process.gid(),
            pid: process.pid(),
        };
        Ok((stream, peer))
    }
}

impl Listener for TcpListener {
    type Stream = TcpStream;

    async fn next(&self) -> io::Result<(TcpStream, Peer)> {
        let (stream, address) = TcpListener::accept(self).await?;
        stream.set_nodelay(true)?;
        Ok((stream, Peer::Network { address }))
    }
}
