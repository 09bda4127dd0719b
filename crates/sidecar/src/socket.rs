//! Creates the Unix socket with safe permissions, and ensures that two sidecars never share a path.

mod directory;
mod error;
mod file_id;
mod lock;
mod occupant;

use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tokio::net::UnixListener;

pub(crate) use error::Result;
pub use error::SocketError;
pub(crate) use file_id::SocketFileId;
use pillion_config::{SocketMode, SystemGroup};

/// Maximum length of a socket's path, in bytes.
const MAX_PATH_BYTES: usize = 107;

/// A bound and listening socket with its permissions, and the lock on its path.
#[derive(Debug)]
pub struct Socket {
    listener: UnixListener,
    guard: SocketGuard,
}

/// Holds the lock on a path while its socket is served. [`remove`](Self::remove) removes the
/// socket; a dropped guard leaves a stale socket, which the next start replaces.
#[derive(Debug)]
pub struct SocketGuard {
    path: PathBuf,
    /// The device and inode numbers of the socket file; `None` while the file does not exist.
    file: Option<SocketFileId>,
    lock: lock::SocketLock,
    permissions: Permissions,
}

/// The group and mode of the socket.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Permissions {
    group: Option<u32>,
    mode: Option<SocketMode>,
}

impl Permissions {
    /// Returns the permissions for the configured group and mode, with the group resolved to its
    /// ID.
    ///
    /// # Errors
    /// [`SocketError::UnknownGroup`] if the group does not exist; [`SocketError::GroupLookup`] if
    /// the group cannot be looked up.
    pub(crate) fn resolve(group: Option<&SystemGroup>, mode: Option<SocketMode>) -> Result<Self> {
        let group = group.map(resolve_group).transpose()?;
        Ok(Self { group, mode })
    }
}

impl Socket {
    /// Binds `path` with mode 0600, or with mode 0660 and the group if `group` is set. Creates a
    /// missing directory with mode 0700 or 0750. Replaces a stale socket, but not a live socket or
    /// any other file. Must be called inside a tokio runtime.
    ///
    /// Between binding and setting the mode, the umask determines the mode. `pillion serve` first
    /// sets the umask to 0077, so that the mode is never wider than the final mode.
    ///
    /// # Errors
    /// [`SocketError`] if the directory, the lock or the socket cannot be created, or if another
    /// process serves the path.
    pub async fn bind(path: &Path, group: Option<&SystemGroup>) -> Result<Self> {
        Self::bind_with_mode(path, group, None).await
    }

    /// Binds `path` like [`bind`](Self::bind), with another mode of the socket. A missing directory
    /// of a socket that is open to all users is created with mode 0755.
    ///
    /// # Errors
    /// The same errors as [`bind`](Self::bind).
    pub async fn bind_with_mode(
        path: &Path,
        group: Option<&SystemGroup>,
        mode: Option<SocketMode>,
    ) -> Result<Self> {
        let length = path.as_os_str().len();
        if length > MAX_PATH_BYTES {
            let path = path.to_owned();
            return Err(SocketError::PathTooLong { path, length });
        }
        let permissions = Permissions::resolve(group, mode)?;
        directory::prepare(path, permissions.group, mode)?;
        // The path is checked before it is locked, so that no lock file is left at a path where no
        // socket can be bound.
        occupant::socket_exists(path)?;
        let lock = lock::SocketLock::take(path)?;
        let (listener, file) = bind(path, permissions).await?;
        let guard = SocketGuard {
            path: path.to_owned(),
            file: Some(file),
            lock,
            permissions,
        };
        Ok(Self { listener, guard })
    }

    /// Returns the listener, and the guard to keep while the listener is served.
    #[must_use]
    pub fn into_parts(self) -> (UnixListener, SocketGuard) {
        (self.listener, self.guard)
    }
}

impl SocketGuard {
    /// Creates the guard of a socket that another process has bound at `path` and handed over with
    /// the lock on the path. If the socket's file is gone, [`restore`](Self::restore) creates it
    /// again.
    pub(crate) fn from_handover(
        path: &Path,
        lock: OwnedFd,
        permissions: Permissions,
    ) -> Result<Self> {
        let file = SocketFileId::for_path(path).map_err(|source| SocketError::Probe {
            path: path.to_owned(),
            source,
        })?;
        Ok(Self {
            path: path.to_owned(),
            file,
            lock: lock::SocketLock::from_handover(path, lock),
            permissions,
        })
    }

    /// Returns whether clients can reach the socket by its path, and the path is locked.
    pub(crate) fn is_intact(&self) -> bool {
        self.lock.is_intact() && self.has_own_file()
    }

    fn has_own_file(&self) -> bool {
        self.file.is_some()
            && SocketFileId::for_path(&self.path).is_ok_and(|current| current == self.file)
    }

    /// Locks the path and binds the socket again, if their files are gone or replaced, under the
    /// rules of [`Socket::bind`]. Returns the new listener if the socket was bound again.
    ///
    /// # Errors
    /// The same errors as [`Socket::bind`].
    pub(crate) async fn restore(&mut self) -> Result<Option<UnixListener>> {
        let Permissions { group, mode } = self.permissions;
        directory::prepare(&self.path, group, mode)?;
        occupant::socket_exists(&self.path)?;
        if !self.lock.is_intact() {
            self.lock = lock::SocketLock::take(&self.path)?;
        }
        if self.has_own_file() {
            return Ok(None);
        }
        let (listener, file) = bind(&self.path, self.permissions).await?;
        self.file = Some(file);
        Ok(Some(listener))
    }

    /// Returns the descriptor of the lock, to hand over to a successor.
    pub(crate) fn lock(&self) -> BorrowedFd<'_> {
        self.lock.descriptor()
    }

    /// Removes the socket's file, unless another file has replaced it, and releases the lock.
    ///
    /// # Errors
    /// [`SocketError::Remove`] if the file cannot be removed.
    pub fn remove(self) -> Result<()> {
        if self.has_own_file() {
            occupant::remove(&self.path)
        } else {
            Ok(())
        }
    }
}

/// Returns the group's ID.
fn resolve_group(group: &SystemGroup) -> Result<u32> {
    match group {
        SystemGroup::Id(id) => Ok(*id),
        SystemGroup::Name(name) => match nix::unistd::Group::from_name(name) {
            Ok(Some(group)) => Ok(group.gid.as_raw()),
            Ok(None) => Err(SocketError::UnknownGroup(name.clone())),
            Err(errno) => Err(SocketError::GroupLookup {
                name: name.clone(),
                source: errno.into(),
            }),
        },
    }
}

/// Binds a path that the caller has locked.
async fn bind(path: &Path, permissions: Permissions) -> Result<(UnixListener, SocketFileId)> {
    occupant::remove_stale_socket(path).await?;
    let listener = UnixListener::bind(path).map_err(|source| SocketError::Bind {
        path: path.to_owned(),
        source,
    })?;
    let file = set_permissions(path, permissions)?;
    Ok((listener, file))
}

/// Sets the group and mode of the socket's file. Returns the ID of the file.
fn set_permissions(path: &Path, permissions: Permissions) -> Result<SocketFileId> {
    let error = |source| SocketError::Permissions {
        path: path.to_owned(),
        source,
    };
    let default_mode = if let Some(group) = permissions.group {
        std::os::unix::fs::chown(path, None, Some(group)).map_err(error)?;
        0o660
    } else {
        0o600
    };
    let mode = permissions.mode.map_or(default_mode, SocketMode::bits);
    std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).map_err(error)?;
    let metadata = std::fs::symlink_metadata(path).map_err(error)?;
    Ok(SocketFileId::from_metadata(&metadata))
}
