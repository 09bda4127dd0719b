//! Detects which processes have ended, among those that share a store and have no socket.
//!
//! Each process locks a file that is named after the process's ID. The system releases the lock
//! when the process ends for any reason, so a process that can acquire the lock knows that the
//! calls of the other process will never finish.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::fcntl::OFlag;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use uuid::Uuid;

use crate::instance::local_identity;
use pillion_config::Config;

/// The directory with the lock files of processes without a socket.
#[derive(Debug, Clone)]
pub(crate) struct ProcessLocks {
    directory: PathBuf,
}

/// The lock file of one process, locked until this value is dropped.
#[derive(Debug)]
pub(crate) struct ProcessLock {
    pub(crate) name: String,
    path: PathBuf,
    _lock: File,
}

impl ProcessLocks {
    /// Returns the locks in the configured directory of lock files, or `None` if no other process
    /// can use the store.
    pub(crate) fn from_config(config: &Config) -> Option<Self> {
        let directory = config.process_locks_directory()?;
        Some(Self { directory })
    }

    /// Returns the identity in the call log that all processes without a socket share.
    pub(crate) fn owner(&self) -> String {
        local_identity(&self.directory)
    }

    /// Locks the file of the process with the ID `name`.
    ///
    /// # Errors
    /// If the directory cannot be created, or the file cannot be locked.
    pub(crate) fn acquire(&self, name: String) -> io::Result<ProcessLock> {
        // No permissions are set, because the umask of the process restricts the directory to its
        // user.
        fs::create_dir_all(&self.directory)?;
        let path = self.directory.join(&name);
        loop {
            let lock = open_lock_file(&path, true)?;
            flock(&lock, FlockOperation::LockExclusive)?;
            // The inodes are compared, because another process may have acquired the lock first and
            // removed the file.
            let inode = fs::symlink_metadata(&path).map(|metadata| metadata.ino());
            if inode.ok() == Some(lock.metadata()?.ino()) {
                return Ok(ProcessLock {
                    name,
                    path,
                    _lock: lock,
                });
            }
        }
    }

    /// Locks and returns the lock files of processes that have ended without removing them. While
    /// these files are locked, no other process gets them from this function.
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub(crate) fn acquire_ended(&self) -> io::Result<Vec<ProcessLock>> {
        let entries = match fs::read_dir(&self.directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let mut ended_locks = Vec::new();
        for entry in entries {
            let path = entry?.path();
            let name = path.file_name().and_then(|name| name.to_str());
            let Some(name) = name.filter(|name| Uuid::try_parse(name).is_ok()) else {
                continue;
            };
            // If the file no longer exists, another process has handled it.
            let Ok(lock) = open_lock_file(&path, false) else {
                continue;
            };
            match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => ended_locks.push(ProcessLock {
                    name: name.to_owned(),
                    path,
                    _lock: lock,
                }),
                Err(Errno::WOULDBLOCK) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(ended_locks)
    }
}

impl ProcessLock {
    /// Removes the lock file.
    pub(crate) fn remove(&self) {
        if let Err(error) = fs::remove_file(&self.path) {
            tracing::debug!(
                %error, path = %self.path.display(),
                "Cannot remove the lock file of a sidecar process"
            );
        }
    }
}

fn open_lock_file(path: &Path, may_create: bool) -> io::Result<File> {
    OpenOptions::new()
        .write(true)
        .create(may_create)
        .truncate(false)
        .mode(0o600)
        .custom_flags(OFlag::O_NOFOLLOW.bits())
        .open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f4_a_process_is_detected_as_ended_only_after_its_end() {
        let directory = tempfile::tempdir().unwrap();
        let locks = ProcessLocks {
            directory: directory.path().join("processes"),
        };
        assert!(locks.acquire_ended().unwrap().is_empty());
        let [first, second] = [0, 1].map(|_| locks.acquire(Uuid::now_v7().to_string()).unwrap());
        assert!(locks.acquire_ended().unwrap().is_empty());
        // The state after a kill: the lock is released, and the file remains.
        let name = first.name.clone();
        drop(first);
        let mut ended = locks.acquire_ended().unwrap();
        assert_eq!(ended.len(), 1);
        let found = ended.pop().unwrap();
        assert_eq!(found.name, name);
        assert!(locks.acquire_ended().unwrap().is_empty(), "it is held");
        found.remove();
        second.remove();
        assert!(locks.acquire_ended().unwrap().is_empty());
        assert_eq!(fs::read_dir(&locks.directory).unwrap().count(), 0);
    }
}
