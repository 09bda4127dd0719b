use std::os::fd::{AsFd, BorrowedFd};

use rustix::ioctl::{Getter, Opcode, ioctl};
use tokio::net::{TcpStream, UnixStream};

/// `TIOCOUTQ`, also named `SIOCOUTQ` for sockets: tcp(7), unix(7).
#[cfg(target_os = "linux")]
const OUTPUT_QUEUE: Opcode = 0x5411;

/// A stream for which the system reports how many bytes the peer has not received.
pub(super) trait SendQueue {
    /// Maximum size of one write, in bytes. A Unix socket frees the memory of one write only after
    /// the peer has read the whole write, so smaller writes show sooner that the peer reads.
    const MAX_WRITE: usize;

    /// Returns the number of bytes that were written and not yet read, or `None` if unknown. For
    /// TCP, these are the unacknowledged bytes; for a Unix socket, the memory of the queue.
    fn unsent(&self) -> Option<u64>;
}

impl SendQueue for UnixStream {
    const MAX_WRITE: usize = 8 * 1024;

    fn unsent(&self) -> Option<u64> {
        output_queue(self.as_fd())
    }
}

impl SendQueue for TcpStream {
    const MAX_WRITE: usize = usize::MAX;

    fn unsent(&self) -> Option<u64> {
        output_queue(self.as_fd())
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
