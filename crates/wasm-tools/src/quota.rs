//! Limits the size of the folders that a tool may write.

use std::fs::Metadata;
use std::io::{self, ErrorKind};
use std::path::Path;

/// Minimum size of a file or folder, and the step in which sizes are counted, in bytes.
const SIZE_STEP_BYTES: u64 = 4096;

/// Returns whether a folder, including its subfolders, is larger than `max_bytes` bytes. Stops
/// counting above that size, or when `is_cancelled` returns `true`; the result is then `false`.
///
/// # Errors
/// The metadata of an entry of the folder cannot be read.
pub(crate) fn is_larger(
    root: &Path,
    max_bytes: u64,
    is_cancelled: impl Fn() -> bool,
) -> io::Result<bool> {
    let mut total_bytes: u64 = 0;
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        let Some(entries) = ignore_inaccessible(folder.read_dir())? else {
            continue;
        };
        for entry in entries {
            if is_cancelled() {
                return Ok(false);
            }
            let entry = entry?;
            // For a symbolic link, the entry has the metadata of the link, not of its target.
            let Some(metadata) = ignore_inaccessible(entry.metadata())? else {
                continue;
            };
            total_bytes = total_bytes.saturating_add(rounded_size(&metadata));
            if total_bytes > max_bytes {
                return Ok(true);
            }
            if metadata.is_dir() {
                folders.push(entry.path());
            }
        }
    }
    Ok(false)
}

/// Converts two errors to `None`: the error for an entry that was removed meanwhile, and the error
/// for an entry that this process, and thus every tool, cannot access.
fn ignore_inaccessible<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) => match error.kind() {
            ErrorKind::NotFound | ErrorKind::PermissionDenied => Ok(None),
            _ => Err(error),
        },
    }
}

fn rounded_size(metadata: &Metadata) -> u64 {
    let blocks = metadata.len().div_ceil(SIZE_STEP_BYTES).max(1);
    blocks.saturating_mul(SIZE_STEP_BYTES)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn p_folders_are_counted_recursively_without_following_links() {
        let directory = tempfile::tempdir().unwrap();
        let exceeds =
            |blocks: u64| is_larger(directory.path(), blocks * SIZE_STEP_BYTES, || false).unwrap();
        assert!(!exceeds(0));
        let inner = directory.path().join("a/b");
        fs::create_dir_all(&inner).unwrap();
        fs::write(inner.join("empty"), "").unwrap();
        fs::write(inner.join("more"), vec![0; 4097]).unwrap();
        std::os::unix::fs::symlink("/", inner.join("link")).unwrap();
        // The test's folder has six blocks: two folders, an empty file, a file of two blocks, and a
        // link.
        assert!(exceeds(5));
        assert!(!exceeds(6));
        let gone = directory.path().join("gone");
        assert!(!super::is_larger(&gone, 0, || false).unwrap());
        assert!(!super::is_larger(directory.path(), 0, || true).unwrap());
    }
}
