use std::io;
use std::time::Duration;

use nix::sys::socket::{setsockopt, sockopt};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};

use super::unread::UnreadBytes;
use pillion_gateway::access::Peer;

/// Pause after a failed `accept`, which usually means that the process is out of file descriptors:
/// retrying at once would only waste CPU time.
const ACCEPT_RETRY_INTERVAL: Duration = Duration::from_millis(100);

/// Maximum TCP segment size, in bytes. Larger segments occur only on the loopback.
const MAX_SEGMENT_BYTES: u32 = 8 * 1024;

/// A source of connections.
pub(super) trait Listener {
    /// A connection that is not registered with a runtime yet.
    type Accepted: Send + 'static;
    type Stream: AsyncRead + AsyncWrite + UnreadBytes + Send + Unpin + 'static;

    /// Returns the next connection and its peer.
    async fn next(&self) -> io::Result<(Self::Accepted, Peer)>;

    /// Registers the connection with the current runtime.
    fn adopt(accepted: Self::Accepted) -> io::Result<Self::Stream>;

    /// Like [`next`](Self::next), but retries after errors.
    async fn accept_with_retry(&self) -> (Self::Accepted, Peer) {
        loop {
            match self.next().await {
                Ok(accepted) => return accepted,
                Err(error) => {
                    tracing::warn!(%error, "Cannot accept a connection");
                    tokio::time::sleep(ACCEPT_RETRY_INTERVAL).await;
                }
            }
        }
    }
}

/// Limits the TCP segment size of a listener's connections. A receiver with a full buffer announces
/// free space in units of segments, and the loopback's segments of 64 KiB would make a slow reader
/// look stalled for a long time.
pub(super) fn limit_segments(listener: &TcpListener) {
    if let Err(error) = setsockopt(listener, sockopt::TcpMaxSeg, &MAX_SEGMENT_BYTES) {
        tracing::debug!(%error, "Cannot limit the TCP segment size");
    }
}

impl Listener for UnixListener {
    type Accepted = std::os::unix::net::UnixStream;
    type Stream = UnixStream;

    fn adopt(accepted: Self::Accepted) -> io::Result<UnixStream> {
        UnixStream::from_std(accepted)
    }

    async fn next(&self) -> io::Result<(Self::Accepted, Peer)> {
        let (stream, _) = UnixListener::accept(self).await?;
        let process = stream.peer_cred()?;
        let peer = Peer::Process {
            uid: process.uid(),
            gid: process.gid(),
            pid: process.pid(),
        };
        Ok((stream.into_std()?, peer))
    }
}

impl Listener for TcpListener {
    type Accepted = std::net::TcpStream;
    type Stream = TcpStream;

    fn adopt(accepted: Self::Accepted) -> io::Result<TcpStream> {
        TcpStream::from_std(accepted)
    }

    async fn next(&self) -> io::Result<(Self::Accepted, Peer)> {
        let (stream, address) = TcpListener::accept(self).await?;
        stream.set_nodelay(true)?;
        Ok((stream.into_std()?, Peer::Network { address }))
    }
}
