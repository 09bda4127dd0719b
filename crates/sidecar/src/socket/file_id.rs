use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The device and inode of a file, which identify the file while a process holds it open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SocketFileId {
    device: u64,
    inode: u64,
}

impl SocketFileId {
    /// Returns the ID of the file at `path`, or `None` if the file does not exist. Symbolic links
    /// are not followed.
    ///
    /// # Errors
    /// The file cannot be examined.
    pub(crate) fn for_path(path: &Path) -> io::Result<Option<Self>> {
        match std::fs::symlink_metadata(path) {
            Ok(metadata) => Ok(Some(Self::from_metadata(&metadata))),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub(super) fn from_metadata(metadata: &impl MetadataExt) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
        }
    }
}
