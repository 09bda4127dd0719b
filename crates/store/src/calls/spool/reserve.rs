use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::{FallocateFlags, fallocate};

/// Size of the reserved space, in bytes: enough for the ends of several hundred calls, without
/// results.
const RESERVED_BYTES: u64 = 256 * 1024;

/// Number of bytes that are released at once. Another process may fill the released space first,
/// but gets no more than this number of bytes.
const RELEASE_STEP_BYTES: u64 = 4 * 1024;

/// Disk space that is released in steps when the disk is full, so that the ends of running calls
/// can be recorded. A call begins only while the whole space is reserved.
///
/// The space is an unlinked file, which the system deletes when the process ends.
#[derive(Debug)]
pub(super) struct Reserve {
    file: File,
    bytes: u64,
    /// Whether the file system cannot reserve space.
    is_unsupported: bool,
}

impl Reserve {
    /// Reserves the space beside a database.
    ///
    /// # Errors
    /// The file cannot be created, or the disk is full.
    pub(super) fn for_database(database: &Path) -> io::Result<Self> {
        let mut path = database.as_os_str().to_owned();
        path.push(format!(".reserve-{:016x}", rand::random::<u64>()));
        let mut options = OpenOptions::new();
        let file = options
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)?;
        fs::remove_file(&path)?;
        let mut reserve = Self {
            file,
            bytes: 0,
            is_unsupported: false,
        };
        reserve.restock()?;
        Ok(reserve)
    }

    /// Returns whether the whole space is reserved.
    pub(super) fn is_whole(&self) -> bool {
        self.is_unsupported || self.bytes == RESERVED_BYTES
    }

    /// Reserves the released space again.
    ///
    /// # Errors
    /// The disk has no room for the space.
    pub(super) fn restock(&mut self) -> io::Result<()> {
        if self.is_whole() {
            return Ok(());
        }
        match fallocate(&self.file, FallocateFlags::empty(), 0, RESERVED_BYTES) {
            Ok(()) => self.bytes = RESERVED_BYTES,
            Err(rustix::io::Errno::OPNOTSUPP) => self.is_unsupported = true,
            Err(error) => {
                // An earlier attempt that failed may have reserved a part of the space.
                self.file.set_len(self.bytes)?;
                return Err(error.into());
            }
        }
        Ok(())
    }

    /// Releases a part of the space. Returns whether any space was left to release.
    pub(super) fn release(&mut self) -> io::Result<bool> {
        let Some(left) = self.bytes.checked_sub(RELEASE_STEP_BYTES) else {
            return Ok(false);
        };
        self.file.set_len(left)?;
        self.bytes = left;
        Ok(true)
    }
}
