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
use crate::Result;

/// Size of the blocks that [`DatabaseFiles::check_disk`] allocates, in bytes.
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

    /// Returns whether this process has the file open. Returns `false` if the open files of this
    /// process cannot be listed.
    fn is_open(self) -> bool {
        let Ok(descriptors) = fs::read_dir("/proc/self/fd") else {
            return false;
        };
        let mut paths = descriptors.filter_map(|entry| Some(entry.ok()?.path()));
        paths.any(|path| self.is_at(&path).unwrap_or(false))
    }

    /// Returns whether the file at `path` is the file with this ID.
    pub(crate) fn is_at(self, path: &Path) -> io::Result<bool> {
        match fs::metadata(path) {
            Ok(metadata) => Ok(Self::from_metadata(&metadata) == self),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// The paths and IDs of the files of an open database. Cheap to clone.
///
/// SQLite does not notice that its database file or its write-ahead log was deleted or replaced:
/// later commits go to a file that no other process can open, and are lost when this process ends.
/// A `stat` of each file detects the loss; a watch of the directory detects when a `stat` is
/// needed.
#[derive(Debug, Clone)]
pub(crate) struct DatabaseFiles(Arc<WatchedFiles>);

#[derive(Debug)]
struct WatchedFiles {
    path: PathBuf,
    file_id: DatabaseFileId,
    log_path: PathBuf,
    /// The ID of the write-ahead log. SQLite creates the log when the first statement runs, and
    /// keeps it until the last connection closes.
    log_id: Mutex<Option<DatabaseFileId>>,
    watch: DirectoryWatch,
    /// The number of changes in the directory at the last check that found both files; [`u64::MAX`]
    /// before the first such check.
    checked_change_count: AtomicU64,
}

impl DatabaseFiles {
    /// Records the IDs of the files of the database that was just opened at `opened_path`.
    pub(super) fn open(opened_path: &Path) -> io::Result<Self> {
        // The path is made absolute, because the process may change its working directory.
        let path = std::path::absolute(opened_path)?;
        let watch = DirectoryWatch::for_file(&path);
        let file_id = DatabaseFileId::from_metadata(&fs::metadata(&path)?);
        let mut log_path = path.clone().into_os_string();
        log_path.push("-wal");
        Ok(Self(Arc::new(WatchedFiles {
            path,
            file_id,
            log_path: log_path.into(),
            log_id: Mutex::default(),
            watch,
            checked_change_count: AtomicU64::new(u64::MAX),
        })))
    }

    /// Returns the number of changes in the directory, or `None` if the changes are not counted.
    pub(super) fn count_directory_changes(&self) -> Option<u64> {
        self.0.watch.change_count()
    }

    /// Checks the files like [`check`](Self::check), but only if files in the directory may have
    /// changed since the last check.
    ///
    /// # Errors
    /// `unavailable`, if the files were deleted or replaced.
    pub(super) fn check_if_changed(&self, directory_change_count: Option<u64>) -> Result<()> {
        let checked_change_count = &self.0.checked_change_count;
        let Some(change_count) = directory_change_count else {
            return self.check();
        };
        if checked_change_count.load(Ordering::Acquire) != change_count {
            self.check()?;
            checked_change_count.store(change_count, Ordering::Release);
        }
        Ok(())
    }

    /// Checks that another process that opens the path would find the writes of this process.
    ///
    /// # Errors
    /// `unavailable`, if the files were deleted or replaced.
    pub(crate) fn check(&self) -> Result<()> {
        let WatchedFiles { path, file_id, .. } = &*self.0;
        let exists = file_id
            .is_at(path)
            .map_err(|error| lookup_error(path, error))?;
        if !exists {
            return Err(replacement_error(path));
        }
        self.check_log()
    }

    /// Checks that the disk of the database accepts data: allocates some blocks, and frees them.
    ///
    /// # Errors
    /// `unavailable`, if the disk is full or read-only, or the files were deleted or replaced.
    pub(super) fn check_disk(&self) -> Result<()> {
        self.check()?;
        check_disk(&self.0.path)
    }

    fn check_log(&self) -> Result<()> {
        let WatchedFiles {
            log_path, log_id, ..
        } = &*self.0;
        let current_log_id = match fs::metadata(log_path) {
            Ok(metadata) => Some(DatabaseFileId::from_metadata(&metadata)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(lookup_error(log_path, error)),
        };
        let mut recorded_log_id = log_id.lock();
        match (*recorded_log_id, current_log_id) {
            (recorded_id, current_id) if recorded_id == current_id => Ok(()),
            // A new write-ahead log is accepted only if SQLite has created it, which happens when
            // the first statement runs and after all connections were reopened.
            (_, Some(current_id)) if recorded_log_id.is_none() || current_id.is_open() => {
                *recorded_log_id = Some(current_id);
                Ok(())
            }
            _ => Err(replacement_error(log_path)),
        }
    }
}

/// Checks that the disk of a database accepts data: allocates some blocks, and frees them.
///
/// # Errors
/// `unavailable`, if the disk is full or read-only.
pub(crate) fn check_disk(database_path: &Path) -> Result<()> {
    allocate(database_path).map_err(|error| {
        let path = database_path.display();
        let message = format!("cannot write beside the store '{path}': {error}");
        StoreError::unavailable(message).with_source(error)
    })
}

fn allocate(database_path: &Path) -> io::Result<()> {
    let mut path = database_path.as_os_str().to_owned();
    path.push(format!(".trial-{:016x}", rand::random::<u64>()));
    let file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&path)?;
    fs::remove_file(&path)?;
    match fallocate(&file, FallocateFlags::empty(), 0, TRIAL_BYTES) {
        // An unsupported operation is not an error, because not every file system can allocate
        // blocks without writing them.
        Ok(()) | Err(Errno::OPNOTSUPP) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn replacement_error(path: &Path) -> StoreError {
    StoreError::unavailable(format!(
        "the store's file '{}' was deleted or replaced while it was open: restore the file, or \
        restart the process",
        path.display()
    ))
}

fn lookup_error(path: &Path, error: io::Error) -> StoreError {
    let message = format!(
        "the store's file '{}' cannot be found: {error}",
        path.display()
    );
    StoreError::unavailable(message).with_source(error)
}
