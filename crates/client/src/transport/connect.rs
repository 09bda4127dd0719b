use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, UnixAddr, connect as connect_socket, setsockopt, socket,
    sockopt,
};
use nix::sys::time::{TimeVal, TimeValLike};
use ureq::unversioned::transport::NextTimeout;

use super::InterruptHook;
use super::connection::{INTERRUPT_INTERVAL, INTERRUPTED};

/// A failure to connect. Separate from failures of an open connection, because no request was sent.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub(crate) struct SocketConnectError(pub(crate) io::Error);

impl From<Errno> for SocketConnectError {
    fn from(errno: Errno) -> Self {
        Self(errno.into())
    }
}

/// Connects within the timeout. `UnixStream::connect` could block indefinitely when the listener's
/// backlog is full, because the standard library cannot set a timeout before connecting.
pub(super) fn connect(
    path: &Path,
    timeout: NextTimeout,
    interrupt: Option<&InterruptHook>,
) -> Result<UnixStream, ureq::Error> {
    let other = |error: SocketConnectError| ureq::Error::Other(Box::new(error));
    let address = UnixAddr::new(path).map_err(|errno| other(errno.into()))?;
    let started = Instant::now();
    loop {
        let left = (*timeout.after).saturating_sub(started.elapsed());
        if left.is_zero() {
            return Err(ureq::Error::Timeout(timeout.reason));
        }
        match attempt(&address, left.min(INTERRUPT_INTERVAL)) {
            Ok(stream) => return Ok(stream),
            // EAGAIN means that the backlog was full for the whole slice, EINTR that a signal
            // arrived.
            Err(Errno::EAGAIN | Errno::EINTR) => {
                if interrupt.is_some_and(|interrupted| interrupted()) {
                    return Err(ureq::Error::Io(io::Error::other(INTERRUPTED)));
                }
            }
            Err(errno) => return Err(other(errno.into())),
        }
    }
}

fn attempt(address: &UnixAddr, wait: Duration) -> Result<UnixStream, Errno> {
    let socket = socket(
        AddressFamily::Unix,
        SockType::Stream,
        SockFlag::SOCK_CLOEXEC,
        None,
    )?;
    // A timeout of zero would mean no timeout.
    let micros = i64::try_from(wait.as_micros()).unwrap_or(i64::MAX).max(1);
    setsockopt(
        &socket,
        sockopt::SendTimeout,
        &TimeVal::microseconds(micros),
    )?;
    connect_socket(socket.as_raw_fd(), address)?;
    Ok(UnixStream::from(socket))
}
