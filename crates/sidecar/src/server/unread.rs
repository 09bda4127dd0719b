//! The number of bytes that were written to a client and that the client has not read.

mod socket_diagnostics;

use std::os::fd::{AsFd, BorrowedFd};

use rustix::ioctl::{Getter, Opcode, ioctl};
use tokio::net::{TcpStream, UnixStream};

/// The ioctl `TIOCOUTQ`, named `SIOCOUTQ` for sockets: tcp(7), unix(7).
#[cfg(target_os = "linux")]
const OUTPUT_QUEUE: Opcode = 0x5411;

/// The number of bytes that were written to a client and that the client has not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Unread {
    pub(super) bytes: u64,
    /// Whether each byte that the client reads reduces `bytes`. True for a client in the same
    /// network namespace of the same host. The receive window of any other client opens only after
    /// the client has read up to 128 KiB, and until then `bytes` does not change.
    pub(super) is_exact: bool,
}

impl Unread {
    /// Returns whether the client has read something since `before`. Nothing may have been written
    /// since then.
    pub(super) fn has_shrunk_since(self, before: Self) -> bool {
        self.is_exact == before.is_exact && self.bytes < before.bytes
    }

    fn exact(bytes: u64) -> Self {
        Self {
            bytes,
            is_exact: true,
        }
    }

    fn in_steps(bytes: u64) -> Self {
        Self {
            bytes,
            is_exact: false,
        }
    }
}

/// A stream for which the system reports how many bytes the peer has not read.
pub(super) trait UnreadBytes {
    /// Maximum size of one write, in bytes. A Unix socket frees the memory of one write only after
    /// the peer has read the whole write, so smaller writes show sooner that the peer reads.
    const MAX_WRITE: usize;

    /// Returns the number of bytes that were written and not yet read, or `None` if unknown.
    fn unread(&self) -> Option<Unread>;
}

impl UnreadBytes for UnixStream {
    const MAX_WRITE: usize = 8 * 1024;

    fn unread(&self) -> Option<Unread> {
        match socket_diagnostics::unix_peer_receive_queue(self.as_fd()) {
            Some(bytes) => Some(Unread::exact(bytes)),
            None => output_queue(self.as_fd()).map(Unread::in_steps),
        }
    }
}

impl UnreadBytes for TcpStream {
    const MAX_WRITE: usize = usize::MAX;

    fn unread(&self) -> Option<Unread> {
        let unacknowledged = output_queue(self.as_fd())?;
        let addresses = self.peer_addr().ok().zip(self.local_addr().ok());
        let received =
            addresses.and_then(|(peer, own)| socket_diagnostics::tcp_receive_queue(peer, own));
        Some(match received {
            Some(received) => Unread::exact(unacknowledged + received),
            None => Unread::in_steps(unacknowledged),
        })
    }
}

#[cfg(target_os = "linux")]
fn output_queue(socket: BorrowedFd<'_>) -> Option<u64> {
    #[expect(unsafe_code, reason = "rustix has no function for this request")]
    // SAFETY: the request writes one C int, which is what the getter has room for.
    let bytes = unsafe { ioctl(socket, Getter::<OUTPUT_QUEUE, i32>::new()) };
    u64::try_from(bytes.ok()?).ok()
}

#[cfg(not(target_os = "linux"))]
fn output_queue(_socket: BorrowedFd<'_>) -> Option<u64> {
    None
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use tokio::io::AsyncReadExt;
    use tokio::net::TcpListener;

    use super::*;

    async fn each_read_shows(stream: &impl UnreadBytes, mut client: impl AsyncReadExt + Unpin) {
        let mut before = stream.unread().unwrap();
        assert!(before.is_exact && before.bytes > 50_000, "{before:?}");
        for bytes in [1, 7, 100, 3_000] {
            client.read_exact(&mut vec![0; bytes]).await.unwrap();
            let after = stream.unread().unwrap();
            assert_eq!(after.bytes, before.bytes - bytes as u64);
            assert!(after.has_shrunk_since(before));
            before = after;
        }
        assert!(!stream.unread().unwrap().has_shrunk_since(before));
    }

    #[tokio::test]
    async fn h6_each_byte_that_a_client_on_this_host_reads_shows() {
        for address in ["127.0.0.1:0", "[::1]:0", "[::]:0"] {
            let Ok(listener) = TcpListener::bind(address).await else {
                continue;
            };
            let port = listener.local_addr().unwrap().port();
            let reachable = address.replace("[::]:0", "127.0.0.1:0");
            let host = reachable.trim_end_matches(":0");
            let client = tokio::net::TcpStream::connect(format!("{host}:{port}")).await;
            let (stream, _) = listener.accept().await.unwrap();
            stream.writable().await.unwrap();
            while stream.try_write(&[0; 1024]).is_ok() {}
            // The last segments are still on their way to the client.
            tokio::time::sleep(std::time::Duration::from_millis(200)).await;
            each_read_shows(&stream, client.unwrap()).await;
        }
        let (stream, client) = UnixStream::pair().unwrap();
        stream.writable().await.unwrap();
        while stream.try_write(&[0; 1024]).is_ok() {}
        each_read_shows(&stream, client).await;
    }
}
