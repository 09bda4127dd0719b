use std::fs::{self, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use pillion_core::store::StoreError;
use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;

use super::directory_watch::DirectoryWatch;

/// Size of the blocks that [`DatabaseFiles::try_disk`] allocates, in bytes.
const TRIAL_BYTES: u64 = 64 * 1024;

/// The device and inode of a file, which identify the file while it is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DatabaseFileId {
    device: u64,
    inode: u64,
}

impl DatabaseFileId {
    pub(crate) fn from_metadata(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
        }
    }

    /// Returns whether this process has the file open, as far as the system can tell.
    fn is_open(self) -> bool {
        let Ok(descriptors) = fs::read_dir("/proc/self/fd") else {
            return false;
        };
        let mut paths = descriptors.filter_map(|entry| Some(entry.ok()?.path()));
        paths.any(|path| self.is_at(&path).unwrap_or(false))
    }

    /// Returns whether the file at `path` is the file with this id.
    pub(crate) fn is_at(self, path: &Path) -> io::Result<bool> {
        match fs::metadata(path) {
            Ok(found) => Ok(Self::from_metadata(&found) == self),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// The paths and ids of the files of an open database. Cheap to clone.
///
/// SQLite does not notice that its database file or its write-ahead log was deleted or replaced:
/// later commits go to a file that no other process can open, and are lost when this process ends.
/// A `stat` of each file detects the loss; a watch of the directory detects when a `stat` is
/// needed.
#[derive(Debug, Clone)]
pub(crate) struct DatabaseFiles(Arc<Files>);

#[derive(Debug)]
struct Files {
    path: PathBuf,
    file: DatabaseFileId,
    log_path: PathBuf,
    /// The id of the write-ahead log. SQLite creates the log with the first statement and keeps it
    /// until the last connection closes.
    log: Mutex<Option<DatabaseFileId>>,
    watch: DirectoryWatch,
    /// The number of changes in the directory at the last check that found both files; [`u64::MAX`]
    /// before the first such check.
    checked: AtomicU64,
}

impl DatabaseFiles {
    /// Notes the files of the database that was just opened at `path`.
    pub(super) fn open(relative: &Path) -> io::Result<Self> {
        // The path is made absolute, because the process may change its working directory.
        let path = std::path::absolute(relative)?;
        let watch = DirectoryWatch::for_file(&path);
        let file = DatabaseFileId::from_metadata(&fs::metadata(&path)?);
        let mut log_path = path.clone().into_os_string();
        log_path.push("-wal");
        Ok(Self(Arc::new(Files {
            path,
            file,
            log_path: log_path.into(),
            log: Mutex::default(),
            watch,
            checked: AtomicU64::new(u64::MAX),
        })))
    }

    /// Returns the number of changes in the directory, or `None` if the changes are not counted.
    pub(super) fn directory_changes(&self) -> Option<u64> {
        self.0.watch.changes()
    }

    /// Checks the files like [`check`](Self::check) if the number of changes in the directory is
    /// unknown or has increased since the last check.
    ///
    /// # Errors
    /// `unavailable`, if the files were deleted or replaced.
    pub(super) fn check_if_changed(&self, changes: Option<u64>) -> Result<(), StoreError> {
        let checked = &self.0.checked;
        let Some(changes) = changes else {
            return self.check();
        };
        if checked.load(Ordering::Acquire) != changes {
            self.check()?;
            checked.store(changes, Ordering::Release);
        }
        Ok(())
    }

    /// Checks that another process that opens the path would find the writes of this process.
    ///
    /// # Errors
    /// `unavailable`, if the files were deleted or replaced.
    pub(crate) fn check(&self) -> Result<(), StoreError> {
        let Files { path, file, .. } = &*self.0;
        let exists = file.is_at(path).map_err(|error| unlocatable(path, error))?;
        if !exists {
            return Err(replaced(path));
        }
        self.check_log()
    }

    /// Checks that the disk of the database accepts data: allocates some blocks, and frees them.
    ///
    /// # Errors
    /// `unavailable`, if the disk is full or read-only, or the files were deleted or replaced.
    pub(super) fn try_disk(&self) -> Result<(), StoreError> {
        self.check()?;
        try_disk(&self.0.path)
    }

    fn check_log(&self) -> Result<(), StoreError> {
        let Files { log_path, log, .. } = &*self.0;
        let found = match fs::metadata(log_path) {
            Ok(found) => Some(DatabaseFileId::from_metadata(&found)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(unlocatable(log_path, error)),
        };
        let mut log = log.lock();
        match (*log, found) {
            (known, found) if known == found => Ok(()),
            // The log is the first log, or a new log after all connections were reopened.
            (_, Some(found)) if log.is_none() || found.is_open() => {
                *log = Some(found);
                Ok(())
            }
            _ => Err(replaced(log_path)),
        }
    }
}

/// Checks that the disk of a database accepts data: allocates some blocks, and frees them.
///
/// # Errors
/// `unavailable`, if the disk is full or read-only.
pub(crate) fn try_disk(database: &Path) -> Result<(), StoreError> {
    allocate(database).map_err(|error| {
        let path = database.display();
        let message = format!("cannot write beside the store '{path}': {error}");
        StoreError::unavailable(message).with_source(error)
    })
}

fn allocate(database: &Path) -> io::Result<()> {
    let mut path = database.as_os_str().to_owned();
    path.push(format!(".trial-{:016x}", rand::random::<u64>()));
    let file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&path)?;
    fs::remove_file(&path)?;
    match fallocate(&file, FallocateFlags::empty(), 0, TRIAL_BYTES) {
        // Not every file system can allocate blocks without writing them.
        Ok(()) | Err(Errno::OPNOTSUPP) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn replaced(path: &Path) -> StoreError {
    StoreError::unavailable(format!(
        "the store's file '{}' was deleted or replaced while it was open: restore the file, or \
        restart the process",
        path.display()
    ))
}

fn unlocatable(path: &Path, error: io::Error) -> StoreError {
    let message = format!(
        "the store's file '{}' cannot be found: {error}",
        path.display()
    );
    StoreError::unavailable(message).with_source(error)
}
