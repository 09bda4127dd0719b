use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use crate::database::DatabaseFileId;

/// The part of a spool file's name between the database's file name and a random number.
const NAME_INFIX: &str = ".calls-";

/// The part of a damaged file's name between the database's file name and a random number.
const DAMAGED_INFIX: &str = ".damaged-calls-";

/// A spool file of call records beside the database. This value holds a lock on the file: an
/// unlocked file belongs to a process that has ended.
#[derive(Debug)]
pub(super) struct SpoolFile {
    file: File,
    path: PathBuf,
    id: DatabaseFileId,
    length: u64,
    /// The number of changes in the directory when the file was last found at its path.
    checked: Option<u64>,
}

impl SpoolFile {
    /// Creates an empty file beside the database, with a random name.
    pub(super) fn create(database: &Path) -> io::Result<Self> {
        loop {
            let mut name = database.as_os_str().to_owned();
            name.push(format!("{NAME_INFIX}{:016x}", rand::random::<u64>()));
            let path = PathBuf::from(name);
            let file = OpenOptions::new()
                .create_new(true)
                .read(true)
                .append(true)
                .mode(0o600)
                .open(&path)?;
            // Between creation and lock, another process may have found the unlocked file and
            // removed it.
            flock(&file, FlockOperation::LockExclusive)?;
            let metadata = file.metadata()?;
            if metadata.nlink() > 0 {
                return Ok(Self {
                    file,
                    path,
                    id: DatabaseFileId::from_metadata(&metadata),
                    length: 0,
                    checked: None,
                });
            }
        }
    }

    /// Returns whether the file is still at its path. Checks the path only if the number of changes
    /// in the directory is unknown or has increased since the last check.
    pub(super) fn is_at_path(&mut self, changes: Option<u64>) -> bool {
        if changes.is_some() && changes == self.checked {
            return true;
        }
        let exists = self.id.is_at(&self.path).unwrap_or(false);
        self.checked = changes.filter(|_| exists);
        exists
    }

    /// Appends a record completely or not at all.
    pub(super) fn append(&mut self, line: &[u8]) -> io::Result<()> {
        if let Err(error) = self.file.write_all(line) {
            // If the truncation fails too, half a line is left in the file. The next record begins
            // a new line, and readers ignore the half line.
            if self.file.set_len(self.length).is_err() {
                self.length = self.file.metadata().map_or(self.length, |now| now.len());
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
    pub(super) fn keep_as_damaged(self, database: &Path) -> io::Result<()> {
        let mut path = database.as_os_str().to_owned();
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
fn paths(database: &Path) -> io::Result<Vec<PathBuf>> {
    paths_with(database, NAME_INFIX)
}

/// Returns the paths of the files beside the database whose names continue with `infix`.
fn paths_with(database: &Path, infix: &str) -> io::Result<Vec<PathBuf>> {
    let directory = match database.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let mut prefix = database.file_name().map_or_else(OsString::new, Into::into);
    prefix.push(infix);
    let mut found = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        if name
            .as_encoded_bytes()
            .starts_with(prefix.as_encoded_bytes())
        {
            found.push(entry.path());
        }
    }
    Ok(found)
}

/// Returns whether any spool file is beside the database.
pub(super) fn any_exists(database: &Path) -> io::Result<bool> {
    Ok(!paths(database)?.is_empty())
}

/// Returns the paths and contents of all spool files, locked or not.
pub(super) fn read_all(database: &Path) -> io::Result<Vec<(PathBuf, Vec<u8>)>> {
    read(paths(database)?)
}

/// Returns the paths and contents of the damaged spool files.
pub(super) fn read_damaged(database: &Path) -> io::Result<Vec<(PathBuf, Vec<u8>)>> {
    read(paths_with(database, DAMAGED_INFIX)?)
}

fn read(paths: Vec<PathBuf>) -> io::Result<Vec<(PathBuf, Vec<u8>)>> {
    let mut contents = Vec::new();
    for path in paths {
        match fs::read(&path) {
            Ok(bytes) => contents.push((path, bytes)),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                belongs_to_other_database(&path);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(contents)
}

fn belongs_to_other_database(path: &Path) {
    tracing::warn!(
        path = %path.display(),
        "Skipped a file of recorded calls that belongs to another user"
    );
}

/// Waits for another process that recovers abandoned spool files. A recovering process also holds
/// locks on the files, so during a recovery a lock does not mean that the owner of the file is
/// alive.
pub(super) fn lock_recovery(database: &Path) -> io::Result<File> {
    let mut path = database.as_os_str().to_owned();
    path.push(".recovery");
    let mut options = OpenOptions::new();
    options.create(true).truncate(false).write(true).mode(0o600);
    let lock = options.open(path)?;
    flock(&lock, FlockOperation::LockExclusive)?;
    Ok(lock)
}

/// Opens the spool files whose processes have ended.
pub(super) fn open_abandoned(database: &Path) -> io::Result<Vec<SpoolFile>> {
    let mut found = Vec::new();
    for path in paths(database)? {
        let file = match OpenOptions::new().read(true).append(true).open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                belongs_to_other_database(&path);
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
        found.push(SpoolFile {
            file,
            path,
            id: DatabaseFileId::from_metadata(&metadata),
            length: metadata.len(),
            checked: None,
        });
    }
    Ok(found)
}
