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
    /// A connection that no runtime has yet.
    type Accepted: Send + 'static;
    type Stream: AsyncRead + AsyncWrite + Send + Unpin + 'static;

    /// The next connection, and who is at its other end.
    async fn next(&self) -> io::Result<(Self::Accepted, Peer)>;

    /// The connection, as one of the runtime that this is called in.
    fn adopt(accepted: Self::Accepted) -> io::Result<Self::Stream>;

    /// As [`next`](Self::next), whatever goes wrong on the way.
    async fn accept(&self) -> (Self::Accepted, Peer) {
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
