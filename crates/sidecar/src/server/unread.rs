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
pub(super) struct UnreadCount {
    pub(super) bytes: u64,
    /// Whether each byte that the client reads reduces `bytes`. True for a client in the same
    /// network namespace of the same host. The receive window of any other client opens only after
    /// the client has read up to 128 KiB, and until then `bytes` does not change.
    pub(super) is_exact: bool,
}

impl UnreadCount {
    /// Returns whether the client has read something since `previous`. Only correct if nothing was
    /// written since `previous`.
    pub(super) fn has_shrunk_since(self, previous: Self) -> bool {
        self.is_exact == previous.is_exact && self.bytes < previous.bytes
    }

    fn from_exact_bytes(bytes: u64) -> Self {
        Self {
            bytes,
            is_exact: true,
        }
    }

    fn from_stepped_bytes(bytes: u64) -> Self {
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
    const MAX_WRITE_BYTES: usize;

    /// Returns the number of bytes that were written and not yet read, or `None` if unknown.
    fn unread_count(&self) -> Option<UnreadCount>;
}

impl UnreadBytes for UnixStream {
    const MAX_WRITE_BYTES: usize = 8 * 1024;

    fn unread_count(&self) -> Option<UnreadCount> {
        match socket_diagnostics::unix_peer_receive_queue(self.as_fd()) {
            Some(bytes) => Some(UnreadCount::from_exact_bytes(bytes)),
            None => output_queue_bytes(self.as_fd()).map(UnreadCount::from_stepped_bytes),
        }
    }
}

impl UnreadBytes for TcpStream {
    const MAX_WRITE_BYTES: usize = usize::MAX;

    fn unread_count(&self) -> Option<UnreadCount> {
        let unacknowledged_bytes = output_queue_bytes(self.as_fd())?;
        let addresses = self.peer_addr().ok().zip(self.local_addr().ok());
        // The client is a process of this host, so its socket has the addresses in reverse.
        let receive_queue_bytes = addresses.and_then(|(peer_address, own_address)| {
            socket_diagnostics::tcp_receive_queue(peer_address, own_address)
        });
        Some(match receive_queue_bytes {
            Some(queued_bytes) => {
                UnreadCount::from_exact_bytes(unacknowledged_bytes + queued_bytes)
            }
            None => UnreadCount::from_stepped_bytes(unacknowledged_bytes),
        })
    }
}

#[cfg(target_os = "linux")]
fn output_queue_bytes(socket: BorrowedFd<'_>) -> Option<u64> {
    #[expect(unsafe_code, reason = "rustix has no function for this request")]
    // SAFETY: the ioctl request writes one C int, for which the getter has room.
    let bytes = unsafe { ioctl(socket, Getter::<OUTPUT_QUEUE, i32>::new()) };
    u64::try_from(bytes.ok()?).ok()
}

#[cfg(not(target_os = "linux"))]
fn output_queue_bytes(_socket: BorrowedFd<'_>) -> Option<u64> {
    None
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use tokio::io::AsyncReadExt;
    use tokio::net::TcpListener;

    use super::*;

    async fn each_read_shows(stream: &impl UnreadBytes, mut client: impl AsyncReadExt + Unpin) {
        let mut previous_count = stream.unread_count().unwrap();
        assert!(
            previous_count.is_exact && previous_count.bytes > 50_000,
            "{previous_count:?}"
        );
        for bytes in [1, 7, 100, 3_000] {
            client.read_exact(&mut vec![0; bytes]).await.unwrap();
            let current_count = stream.unread_count().unwrap();
            assert_eq!(current_count.bytes, previous_count.bytes - bytes as u64);
            assert!(current_count.has_shrunk_since(previous_count));
            previous_count = current_count;
        }
        assert!(
            !stream
                .unread_count()
                .unwrap()
                .has_shrunk_since(previous_count)
        );
    }

    #[tokio::test]
    async fn h6_each_byte_that_a_client_on_this_host_reads_shows() {
        for address in ["127.0.0.1:0", "[::1]:0", "[::]:0"] {
            let Ok(listener) = TcpListener::bind(address).await else {
                continue;
            };
            let port = listener.local_addr().unwrap().port();
            let reachable_address = address.replace("[::]:0", "127.0.0.1:0");
            let host = reachable_address.trim_end_matches(":0");
            let client = tokio::net::TcpStream::connect(format!("{host}:{port}")).await;
            let (stream, _) = listener.accept().await.unwrap();
            stream.writable().await.unwrap();
            while stream.try_write(&[0; 1024]).is_ok() {}
            // Waits until the last segments, which are still in transit, have reached the client.
            tokio::time::sleep(std::time::Duration::from_millis(200)).await;
            each_read_shows(&stream, client.unwrap()).await;
        }
        let (stream, client) = UnixStream::pair().unwrap();
        stream.writable().await.unwrap();
        while stream.try_write(&[0; 1024]).is_ok() {}
        each_read_shows(&stream, client).await;
    }
}
