use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::{FallocateFlags, fallocate};

/// Size of the reserved space, in bytes: enough for the ends of several hundred calls, without
/// results.
const RESERVED_BYTES: u64 = 256 * 1024;

/// Number of bytes that are released in one step. The steps are small, because another process may
/// fill the released disk space before a record is written to it.
const RELEASE_STEP_BYTES: u64 = 4 * 1024;

/// Disk space that is released in steps when the disk is full, so that the ends of running calls
/// can be recorded. A call begins only while the whole space is reserved.
///
/// The space is an unlinked file, which the system deletes when the process ends.
#[derive(Debug)]
pub(super) struct DiskReserve {
    file: File,
    reserved_bytes: u64,
    /// Whether the file system cannot reserve disk space.
    is_unsupported: bool,
}

impl DiskReserve {
    /// Reserves disk space with a file beside a database.
    ///
    /// # Errors
    /// The file cannot be created, or the disk is full.
    pub(super) fn for_database(database_path: &Path) -> io::Result<Self> {
        let mut path = database_path.as_os_str().to_owned();
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
            reserved_bytes: 0,
            is_unsupported: false,
        };
        reserve.refill()?;
        Ok(reserve)
    }

    /// Returns whether all [`RESERVED_BYTES`] bytes of disk space are reserved.
    pub(super) fn is_fully_reserved(&self) -> bool {
        self.is_unsupported || self.reserved_bytes == RESERVED_BYTES
    }

    /// Reserves the released disk space again.
    ///
    /// # Errors
    /// The disk has less free space than must be reserved.
    pub(super) fn refill(&mut self) -> io::Result<()> {
        if self.is_fully_reserved() {
            return Ok(());
        }
        match fallocate(&self.file, FallocateFlags::empty(), 0, RESERVED_BYTES) {
            Ok(()) => self.reserved_bytes = RESERVED_BYTES,
            Err(rustix::io::Errno::OPNOTSUPP) => self.is_unsupported = true,
            Err(error) => {
                // The file is truncated to its previous size, because the failed attempt may have
                // reserved a part of the disk space.
                self.file.set_len(self.reserved_bytes)?;
                return Err(error.into());
            }
        }
        Ok(())
    }

    /// Releases up to [`RELEASE_STEP_BYTES`] bytes of the reserved disk space. Returns `false` if
    /// no reserved disk space is left.
    pub(super) fn release(&mut self) -> io::Result<bool> {
        let Some(remaining_bytes) = self.reserved_bytes.checked_sub(RELEASE_STEP_BYTES) else {
            return Ok(false);
        };
        self.file.set_len(remaining_bytes)?;
        self.reserved_bytes = remaining_bytes;
        Ok(true)
    }
}
