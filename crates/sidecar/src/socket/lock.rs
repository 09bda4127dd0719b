use std::fs::{File, OpenOptions};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use nix::fcntl::OFlag;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use super::SocketError;

/// The lock on a socket's path: whoever holds it may look for a stale socket, remove it
/// and bind. Without it two sidecars that start at once could each remove the other's.
///
/// The file, the socket's path with `.lock` added, stays when the lock is let go: removing
/// it would let a third process lock a new file while a second waits on the old one.
///
/// It is let go when the last descriptor of the open file is closed, and never before: a
/// process that hands its sockets over hands over one of these, too.
#[derive(Debug)]
pub(super) struct Lock {
    file: OwnedFd,
}

impl Lock {
    pub(super) fn take(socket: &Path) -> Result<Self, SocketError> {
        let mut path = socket.as_os_str().to_owned();
        path.push(".lock");
        let error = |source| SocketError::Lock {
            path: path.clone().into(),
            source,
        };
        let file: File = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags(OFlag::O_NOFOLLOW.bits())
            .open(&path)
            .map_err(error)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Self { file: file.into() }),
            Err(Errno::WOULDBLOCK) => Err(SocketError::AlreadyServed(socket.to_owned())),
            Err(errno) => Err(error(errno.into())),
        }
    }

    /// The lock that somebody else has taken and handed over.
    pub(super) fn handed_over(file: OwnedFd) -> Self {
        Self { file }
    }

    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}
