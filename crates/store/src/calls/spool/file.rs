use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use crate::database::DatabaseFileId;

/// The part of a spool file's name that follows the database's file name and precedes a random
/// number.
const NAME_INFIX: &str = ".calls-";

/// The part of a damaged file's name that follows the database's file name and precedes a random
/// number.
const DAMAGED_INFIX: &str = ".damaged-calls-";

/// A spool file of call records beside the database. The `SpoolFile` holds a lock on the file, so
/// that an unlocked file shows that its process has ended.
#[derive(Debug)]
pub(super) struct SpoolFile {
    file: File,
    path: PathBuf,
    id: DatabaseFileId,
    length: u64,
    /// The number of changes in the directory when the file was last found at its path.
    checked_change_count: Option<u64>,
}

impl SpoolFile {
    /// Creates an empty file beside the database, with a random name.
    pub(super) fn create(database_path: &Path) -> io::Result<Self> {
        loop {
            let mut name = database_path.as_os_str().to_owned();
            name.push(format!("{NAME_INFIX}{:016x}", rand::random::<u64>()));
            let path = PathBuf::from(name);
            let file = OpenOptions::new()
                .create_new(true)
                .read(true)
                .append(true)
                .mode(0o600)
                .open(&path)?;
            // The number of links is checked after locking, because another process may have
            // regarded the unlocked file as abandoned, and removed it.
            flock(&file, FlockOperation::LockExclusive)?;
            let metadata = file.metadata()?;
            if metadata.nlink() > 0 {
                return Ok(Self {
                    file,
                    path,
                    id: DatabaseFileId::from_metadata(&metadata),
                    length: 0,
                    checked_change_count: None,
                });
            }
        }
    }

    /// Returns whether the file is still at its path. Checks the path only if the number of changes
    /// in the directory is unknown or has increased since the last check.
    pub(super) fn is_at_path(&mut self, change_count: Option<u64>) -> bool {
        if change_count.is_some() && change_count == self.checked_change_count {
            return true;
        }
        let exists = self.id.is_at(&self.path).unwrap_or(false);
        self.checked_change_count = change_count.filter(|_| exists);
        exists
    }

    /// Appends a record. If the write fails, removes the part of the record that was written.
    pub(super) fn append(&mut self, line: &[u8]) -> io::Result<()> {
        if let Err(error) = self.file.write_all(line) {
            // If the truncation fails too, an incomplete line remains in the file. The next record
            // begins a new line, and readers ignore the incomplete line.
            if self.file.set_len(self.length).is_err() {
                self.length = self
                    .file
                    .metadata()
                    .map_or(self.length, |metadata| metadata.len());
            }
            return Err(error);
        }
        self.length += line.len() as u64;
        Ok(())
    }

    pub(super) fn clear(&mut self) -> io::Result<()> {
        self.file.set_len(0)?;
        self.length = 0;
        Ok(())
    }

    pub(super) fn read(&mut self) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.file.read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Renames the file, so that later starts do not read the file and an operator can examine it.
    pub(super) fn keep_as_damaged(self, database_path: &Path) -> io::Result<()> {
        let mut path = database_path.as_os_str().to_owned();
        path.push(format!("{DAMAGED_INFIX}{:016x}", rand::random::<u64>()));
        fs::rename(&self.path, path)
    }

    pub(super) fn remove(&mut self) {
        if let Err(error) = fs::remove_file(&self.path) {
            tracing::debug!(
                %error, path = %self.path.display(),
                "Cannot remove a file of recorded calls"
            );
        }
    }
}

/// Returns the paths of the spool files beside the database.
fn list_spool_paths(database_path: &Path) -> io::Result<Vec<PathBuf>> {
    list_paths(database_path, NAME_INFIX)
}

/// Returns the paths of the files beside the database whose names consist of the database's file
/// name, `infix` and further characters.
fn list_paths(database_path: &Path, infix: &str) -> io::Result<Vec<PathBuf>> {
    let directory = match database_path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let mut prefix = database_path
        .file_name()
        .map_or_else(OsString::new, Into::into);
    prefix.push(infix);
    let mut paths = Vec::new();
    for result in fs::read_dir(directory)? {
        let entry = result?;
        let name = entry.file_name();
        if name
            .as_encoded_bytes()
            .starts_with(prefix.as_encoded_bytes())
        {
            paths.push(entry.path());
        }
    }
    Ok(paths)
}

/// Returns whether any spool file is beside the database.
pub(super) fn has_spool_files(database_path: &Path) -> io::Result<bool> {
    Ok(!list_spool_paths(database_path)?.is_empty())
}

/// Returns the paths and contents of all spool files, locked or not.
pub(super) fn read_all(database_path: &Path) -> io::Result<Vec<(PathBuf, Vec<u8>)>> {
    read_files(list_spool_paths(database_path)?)
}

/// Returns the paths and contents of the damaged spool files.
pub(super) fn read_damaged(database_path: &Path) -> io::Result<Vec<(PathBuf, Vec<u8>)>> {
    read_files(list_paths(database_path, DAMAGED_INFIX)?)
}

fn read_files(paths: Vec<PathBuf>) -> io::Result<Vec<(PathBuf, Vec<u8>)>> {
    let mut contents = Vec::new();
    for path in paths {
        match fs::read(&path) {
            Ok(bytes) => contents.push((path, bytes)),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                warn_about_skipped_file(&path);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(contents)
}

fn warn_about_skipped_file(path: &Path) {
    tracing::warn!(
        path = %path.display(),
        "Skipped a file of recorded calls that belongs to another user"
    );
}

/// Locks the recovery of abandoned spool files; waits while another process holds the lock. During
/// a recovery, a lock on a spool file does not show that the process of the file is running,
/// because the recovering process also locks the files.
pub(super) fn lock_recovery(database_path: &Path) -> io::Result<File> {
    let mut path = database_path.as_os_str().to_owned();
    path.push(".recovery");
    let mut options = OpenOptions::new();
    options.create(true).truncate(false).write(true).mode(0o600);
    let lock = options.open(path)?;
    flock(&lock, FlockOperation::LockExclusive)?;
    Ok(lock)
}

/// Opens the spool files whose processes have ended.
pub(super) fn open_abandoned(database_path: &Path) -> io::Result<Vec<SpoolFile>> {
    let mut spool_files = Vec::new();
    for path in list_spool_paths(database_path)? {
        let file = match OpenOptions::new().read(true).append(true).open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                warn_about_skipped_file(&path);
                continue;
            }
            Err(error) => return Err(error),
        };
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => continue,
            Err(error) => return Err(error.into()),
        }
        let metadata = file.metadata()?;
        spool_files.push(SpoolFile {
            file,
            path,
            id: DatabaseFileId::from_metadata(&metadata),
            length: metadata.len(),
            checked_change_count: None,
        });
    }
    Ok(spool_files)
}
