use std::fs::{File, OpenOptions};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use nix::fcntl::OFlag;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use super::file_id::SocketFileId;
use super::{Result, SocketError};
use pillion_gateway::finishing::lock_path;

/// The lock on a socket's path, which is required to remove a stale socket and to bind. Without the
/// lock, two sidecars that start at once could each remove the other's socket.
///
/// The lock file has the suffix `.lock` and stays when the lock is released. If the file were
/// removed, one process could lock the old file, which it has already opened, while another process
/// locks a new file.
///
/// The lock is released when the last descriptor of the open file is closed, and not before. A
/// process that hands its sockets over therefore also hands over a descriptor of the lock.
#[derive(Debug)]
pub(super) struct SocketLock {
    file: File,
    path: PathBuf,
}

impl SocketLock {
    /// Takes the lock on the path of `socket`.
    pub(super) fn take(socket: &Path) -> Result<Self> {
        let path = lock_path(socket);
        let error = |source| SocketError::Lock {
            path: path.clone(),
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
            Ok(()) => Ok(Self { file, path }),
            Err(Errno::WOULDBLOCK) => Err(locked_error(socket)),
            Err(errno) => Err(error(errno.into())),
        }
    }

    /// Adopts the lock that another process has taken and handed over.
    pub(super) fn from_handover(socket: &Path, file: OwnedFd) -> Self {
        Self {
            file: file.into(),
            path: lock_path(socket),
        }
    }

    /// Returns whether the locked file is still at its path. Otherwise, another process could lock
    /// a new file.
    pub(super) fn is_intact(&self) -> bool {
        let metadata = self.file.metadata();
        let current_file = SocketFileId::for_path(&self.path).ok().flatten();
        metadata.is_ok_and(|metadata| current_file == Some(SocketFileId::from_metadata(&metadata)))
    }

    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Returns the error for a path that another process has locked.
fn locked_error(socket: &Path) -> SocketError {
    match SocketFileId::for_path(socket) {
        Ok(None) => SocketError::ServedWithoutFile(socket.to_owned()),
        _ => SocketError::AlreadyServed(socket.to_owned()),
    }
}
