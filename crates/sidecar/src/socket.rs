//! The Unix socket: made so that nobody but those who should can connect, and so that two
//! sidecars never share a path.

mod directory;
mod error;
mod group;
mod lock;
mod occupant;

use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use tokio::net::UnixListener;

use crate::config::{Group, SocketMode};
pub use error::SocketError;

/// The longest path that fits a socket's address, in bytes.
const LONGEST_PATH: usize = 107;

/// A socket that is bound, listens and has its permissions, and the lock on its path.
#[derive(Debug)]
pub struct Socket {
    listener: UnixListener,
    guard: SocketGuard,
}

/// Holds a path while its socket is served. [`remove`](Self::remove) ends it tidily;
/// dropping it leaves a stale socket, which the next start replaces.
#[derive(Debug)]
pub struct SocketGuard {
    path: PathBuf,
    inode: u64,
    lock: lock::Lock,
}

impl Socket {
    /// Binds `path`: mode 0600, or 0660 and the group if one is given; a missing directory
    /// is made with mode 0700 or 0750. A stale socket is replaced; a live one, and a file
    /// that is no socket, is left alone. Must be called inside a tokio runtime.
    ///
    /// Between binding and setting the mode, the mode is what the umask leaves. `pillion
    /// serve` sets the umask to 0077 first, so that it is never wider than it ends up.
    ///
    /// # Errors
    /// [`SocketError`], a variant for each step.
    pub async fn bind(path: &Path, group: Option<&Group>) -> Result<Self, SocketError> {
        Self::bind_with_mode(path, group, None).await
    }

    /// As [`bind`](Self::bind), with another mode of the socket. A directory that is made for
    /// one that everybody may open has mode 0755.
    ///
    /// # Errors
    /// As for [`bind`](Self::bind).
    pub async fn bind_with_mode(
        path: &Path,
        group: Option<&Group>,
        mode: Option<SocketMode>,
    ) -> Result<Self, SocketError> {
        let length = path.as_os_str().len();
        if length > LONGEST_PATH {
            let path = path.to_owned();
            return Err(SocketError::PathTooLong { path, length });
        }
        let group = group.map(group::resolve).transpose()?;
        directory::prepare(path, group, mode)?;
        // Where no socket can be, no lock is left behind either.
        occupant::is_there(path)?;
        let lock = lock::Lock::take(path)?;
        occupant::clear(path).await?;
        let listener = UnixListener::bind(path).map_err(|source| SocketError::Bind {
            path: path.to_owned(),
            source,
        })?;
        let inode = protect(path, group, mode)?;
        let guard = SocketGuard {
            path: path.to_owned(),
            inode,
            lock,
        };
        Ok(Self { listener, guard })
    }

    /// The listener, and the guard to keep until it is done.
    #[must_use]
    pub fn into_parts(self) -> (UnixListener, SocketGuard) {
        (self.listener, self.guard)
    }
}

impl SocketGuard {
    /// For a socket that another process has bound at `path`, and its lock on the path.
    pub(crate) fn handed_over(path: &Path, lock: OwnedFd) -> Result<Self, SocketError> {
        let metadata = std::fs::symlink_metadata(path).map_err(|source| SocketError::Probe {
            path: path.to_owned(),
            source,
        })?;
        Ok(Self {
            path: path.to_owned(),
            inode: metadata.ino(),
            lock: lock::Lock::handed_over(lock),
        })
    }

    /// The lock's descriptor, to hand over.
    pub(crate) fn lock(&self) -> BorrowedFd<'_> {
        self.lock.descriptor()
    }

    /// Removes the socket, unless somebody has put another in its place, and lets go of
    /// the lock.
    ///
    /// # Errors
    /// [`SocketError::Remove`].
    pub fn remove(self) -> Result<(), SocketError> {
        match std::fs::symlink_metadata(&self.path) {
            Ok(found) if found.ino() == self.inode => occupant::remove(&self.path),
            _ => Ok(()),
        }
    }
}

/// Sets the socket's group and mode; returns its inode.
fn protect(
    path: &Path,
    group: Option<u32>,
    wanted: Option<SocketMode>,
) -> Result<u64, SocketError> {
    let error = |source| SocketError::Permissions {
        path: path.to_owned(),
        source,
    };
    let mode = if let Some(group) = group {
        std::os::unix::fs::chown(path, None, Some(group)).map_err(error)?;
        0o660
    } else {
        0o600
    };
    let mode = wanted.map_or(mode, SocketMode::bits);
    std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).map_err(error)?;
    let metadata = std::fs::symlink_metadata(path).map_err(error)?;
    Ok(metadata.ino())
}
