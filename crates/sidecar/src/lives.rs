//! Processes that share a store and have no socket to be known by.
//!
//! Each holds a lock on a file that is named after its life. The system lets go of the lock when
//! the process ends, however it does: whoever gets it then knows that the calls of that life
//! will never end.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::fcntl::OFlag;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use uuid::Uuid;

use crate::config::Config;
use crate::instance::owner_here;

/// The directory of the locks.
#[derive(Debug, Clone)]
pub(crate) struct Lives {
    directory: PathBuf,
}

/// A life, for as long as this is held.
#[derive(Debug)]
pub(crate) struct Life {
    pub(crate) name: String,
    path: PathBuf,
    _lock: File,
}

impl Lives {
    /// Where the configuration has them; none where nobody else can have the store.
    pub(crate) fn of(config: &Config) -> Option<Self> {
        let directory = config.lives_directory()?;
        Some(Self { directory })
    }

    /// What the call log knows these processes by, as those of one kind.
    pub(crate) fn owner(&self) -> String {
        owner_here(&self.directory)
    }

    /// Shows that `life` has begun.
    ///
    /// # Errors
    /// The directory cannot be made, or the file not be locked.
    pub(crate) fn begin(&self, life: String) -> io::Result<Life> {
        // The process's mask leaves it to its user alone.
        fs::create_dir_all(&self.directory)?;
        let path = self.directory.join(&life);
        loop {
            let lock = open(&path, true)?;
            flock(&lock, FlockOperation::LockExclusive)?;
            // Somebody may have had the lock before us, and have taken us for dead.
            let is_there = fs::symlink_metadata(&path).map(|found| found.ino());
            if is_there.ok() == Some(lock.metadata()?.ino()) {
                return Ok(Life {
                    name: life,
                    path,
                    _lock: lock,
                });
            }
        }
    }

    /// The lives that have ended without saying so. While they are held nobody else finds them.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub(crate) fn ended(&self) -> io::Result<Vec<Life>> {
        let entries = match fs::read_dir(&self.directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let mut ended = Vec::new();
        for entry in entries {
            let path = entry?.path();
            let name = path.file_name().and_then(|name| name.to_str());
            let Some(name) = name.filter(|name| Uuid::try_parse(name).is_ok()) else {
                continue;
            };
            // One that is gone by now has been taken care of.
            let Ok(lock) = open(&path, false) else {
                continue;
            };
            match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => ended.push(Life {
                    name: name.to_owned(),
                    path,
                    _lock: lock,
                }),
                Err(Errno::WOULDBLOCK) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(ended)
    }
}

impl Life {
    /// Nothing of it is left to find.
    pub(crate) fn end(&self) {
        if let Err(error) = fs::remove_file(&self.path) {
            tracing::debug!(%error, path = %self.path.display(), "Cannot remove the lock of a life");
        }
    }
}

fn open(path: &Path, create: bool) -> io::Result<File> {
    OpenOptions::new()
        .write(true)
        .create(create)
        .truncate(false)
        .mode(0o600)
        .custom_flags(OFlag::O_NOFOLLOW.bits())
        .open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f4_a_life_is_found_once_it_has_ended_and_not_before() {
        let directory = tempfile::tempdir().unwrap();
        let lives = Lives {
            directory: directory.path().join("lives"),
        };
        assert!(lives.ended().unwrap().is_empty());
        let [first, second] = [0, 1].map(|_| lives.begin(Uuid::now_v7().to_string()).unwrap());
        assert!(lives.ended().unwrap().is_empty());
        // As when the process is killed: the lock goes, the file stays.
        let name = first.name.clone();
        drop(first);
        let mut ended = lives.ended().unwrap();
        assert_eq!(ended.len(), 1);
        let found = ended.pop().unwrap();
        assert_eq!(found.name, name);
        assert!(lives.ended().unwrap().is_empty(), "it is held");
        found.end();
        second.end();
        assert!(lives.ended().unwrap().is_empty());
        assert_eq!(fs::read_dir(&lives.directory).unwrap().count(), 0);
    }
}
