//! How much is in a folder that a tool may write.

use std::fs::Metadata;
use std::io::{self, ErrorKind};
use std::path::Path;

/// What a file or a folder takes at least, in bytes, and in steps of what.
const BLOCK: u64 = 4096;

/// Whether more than `most` bytes are in a folder and those in it. Looks at no more entries than it
/// takes to know, and at none any more when `is_given_up` says so: then there are not.
///
/// # Errors
/// What is there cannot be looked at.
pub(crate) fn is_beyond(
    folder: &Path,
    most: u64,
    is_given_up: impl Fn() -> bool,
) -> io::Result<bool> {
    let mut taken: u64 = 0;
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let Some(entries) = if_there(folder.read_dir())? else {
            continue;
        };
        for entry in entries {
            if is_given_up() {
                return Ok(false);
            }
            let entry = entry?;
            // Of a link, not of what it leads to.
            let Some(metadata) = if_there(entry.metadata())? else {
                continue;
            };
            taken = taken.saturating_add(size(&metadata));
            if taken > most {
                return Ok(true);
            }
            if metadata.is_dir() {
                folders.push(entry.path());
            }
        }
    }
    Ok(false)
}

/// None of what has gone meanwhile, or is hidden from us and so from every tool.
fn if_there<T>(looked: io::Result<T>) -> io::Result<Option<T>> {
    match looked {
        Ok(there) => Ok(Some(there)),
        Err(error) => match error.kind() {
            ErrorKind::NotFound | ErrorKind::PermissionDenied => Ok(None),
            _ => Err(error),
        },
    }
}

fn size(metadata: &Metadata) -> u64 {
    let blocks = metadata.len().div_ceil(BLOCK).max(1);
    blocks.saturating_mul(BLOCK)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn p_what_is_in_a_folder_is_counted_to_its_depths_and_no_links_are_followed() {
        let directory = tempfile::tempdir().unwrap();
        let is_beyond =
            |blocks: u64| is_beyond(directory.path(), blocks * BLOCK, || false).unwrap();
        assert!(!is_beyond(0));
        let inner = directory.path().join("a/b");
        fs::create_dir_all(&inner).unwrap();
        fs::write(inner.join("empty"), "").unwrap();
        fs::write(inner.join("more"), vec![0; 4097]).unwrap();
        std::os::unix::fs::symlink("/", inner.join("link")).unwrap();
        // Two folders, an empty file, two blocks, a link.
        assert!(is_beyond(5));
        assert!(!is_beyond(6));
        let gone = directory.path().join("gone");
        assert!(!super::is_beyond(&gone, 0, || false).unwrap());
        assert!(!super::is_beyond(directory.path(), 0, || true).unwrap());
    }
}
