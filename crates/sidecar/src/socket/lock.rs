use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg, OFlag};

use super::SocketError;

/// The lock on a socket's path: whoever holds it may look for a stale socket, remove it
/// and bind. Without it two sidecars that start at once could each remove the other's.
///
/// The file, the socket's path with `.lock` added, stays when the lock is let go: removing
/// it would let a third process lock a new file while a second waits on the old one.
#[derive(Debug)]
pub(super) struct Lock {
    _file: Flock<File>,
}

impl Lock {
    pub(super) fn take(socket: &Path) -> Result<Self, SocketError> {
        let mut path = socket.as_os_str().to_owned();
        path.push(".lock");
        let error = |source| SocketError::Lock {
            path: path.clone().into(),
            source,
        };
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags(OFlag::O_NOFOLLOW.bits())
            .open(&path)
            .map_err(error)?;
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(file) => Ok(Self { _file: file }),
            Err((_, Errno::EWOULDBLOCK)) => Err(SocketError::AlreadyServed(socket.to_owned())),
            Err((_, errno)) => Err(error(errno.into())),
        }
    }
}
