//! Marks a process that finishes its calls after a successor has taken over the process's socket.
//!
//! The process releases the lock on the socket's path, so that another sidecar can start if the
//! successor dies. That sidecar knows nothing of the process, but must not run the process's
//! requests with idempotency keys again. Therefore the process locks one byte of the lock file,
//! whose offset follows from the process's ID in the call log. The system releases the lock when
//! the process ends for any reason.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::libc;
use uuid::Uuid;

/// The lock that a process holds while it finishes its calls.
#[derive(Debug)]
pub struct FinishingLock {
    _file: File,
}

/// Returns the path of the lock file of a socket.
pub fn lock_path(socket: &Path) -> PathBuf {
    let mut path = socket.as_os_str().to_owned();
    path.push(".lock");
    path.into()
}

impl FinishingLock {
    /// Marks the process `run_id` as finishing its calls on `socket`, whose lock file exists.
    ///
    /// # Errors
    /// If the lock file cannot be opened or locked.
    pub fn acquire(socket: &Path, run_id: &str) -> io::Result<Self> {
        let file = open_lock_file(socket)?;
        fcntl(&file, FcntlArg::F_OFD_SETLK(&byte_lock(run_id)?))?;
        Ok(Self { _file: file })
    }

    /// Returns whether the process `run_id` finishes its calls on `socket`.
    ///
    /// # Errors
    /// If the lock file exists and cannot be examined.
    pub(crate) fn is_held(socket: &Path, run_id: &str) -> io::Result<bool> {
        let file = match open_lock_file(socket) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            result => result?,
        };
        let mut lock = byte_lock(run_id)?;
        fcntl(&file, FcntlArg::F_OFD_GETLK(&mut lock))?;
        Ok(i32::from(lock.l_type) != libc::F_UNLCK)
    }
}

fn open_lock_file(socket: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(OFlag::O_NOFOLLOW.bits())
        .open(lock_path(socket))
}

fn byte_lock(run_id: &str) -> io::Result<libc::flock> {
    let id = Uuid::try_parse(run_id).map_err(io::Error::other)?;
    // The offset is the low 62 bits of the ID, which are random.
    let offset = id.as_u64_pair().1 & ((1 << 62) - 1);
    Ok(libc::flock {
        l_type: libc::F_WRLCK as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: libc::off_t::try_from(offset).map_err(io::Error::other)?,
        l_len: 1,
        l_pid: 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finishing_process_is_found_until_it_ends() {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("s");
        let [first, second] = [(); 2].map(|()| Uuid::now_v7().to_string());
        assert!(!FinishingLock::is_held(&socket, &first).unwrap());
        File::create(lock_path(&socket)).unwrap();
        let lock = FinishingLock::acquire(&socket, &first).unwrap();
        let other = FinishingLock::acquire(&socket, &second).unwrap();
        assert!(FinishingLock::is_held(&socket, &first).unwrap());
        drop(lock);
        assert!(!FinishingLock::is_held(&socket, &first).unwrap());
        assert!(FinishingLock::is_held(&socket, &second).unwrap());
        drop(other);
    }
}
