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
use super::connection::{INTERRUPT_INTERVAL, INTERRUPTED_ERROR};

/// A failure to connect, after which no request was sent. Failures of an open connection have
/// another type.
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
    interrupt_hook: Option<&InterruptHook>,
) -> Result<UnixStream, ureq::Error> {
    let to_ureq_error = |error: SocketConnectError| ureq::Error::Other(Box::new(error));
    let address = UnixAddr::new(path).map_err(|errno| to_ureq_error(errno.into()))?;
    let started_at = Instant::now();
    loop {
        let remaining_time = (*timeout.after).saturating_sub(started_at.elapsed());
        if remaining_time.is_zero() {
            return Err(ureq::Error::Timeout(timeout.reason));
        }
        match attempt_connect(&address, remaining_time.min(INTERRUPT_INTERVAL)) {
            Ok(stream) => return Ok(stream),
            // EAGAIN means that the backlog was full for the whole wait slice, EINTR that a signal
            // arrived.
            Err(Errno::EAGAIN | Errno::EINTR) => {
                if interrupt_hook.is_some_and(|hook| hook()) {
                    return Err(ureq::Error::Io(io::Error::other(INTERRUPTED_ERROR)));
                }
            }
            Err(errno) => return Err(to_ureq_error(errno.into())),
        }
    }
}

fn attempt_connect(address: &UnixAddr, timeout: Duration) -> Result<UnixStream, Errno> {
    let (family, kind) = (AddressFamily::Unix, SockType::Stream);
    let socket = socket(family, kind, SockFlag::SOCK_CLOEXEC, None)?;
    // The timeout is at least one microsecond, because the system treats zero as no timeout.
    let microseconds = i64::try_from(timeout.as_micros()).unwrap_or(i64::MAX);
    let timeout = TimeVal::microseconds(microseconds.max(1));
    setsockopt(&socket, sockopt::SendTimeout, &timeout)?;
    connect_socket(socket.as_raw_fd(), address)?;
    Ok(UnixStream::from(socket))
}
