use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Identifies the state of a file without reading the file; `None` if the file does not exist. The
/// change time of the inode also reveals those changes that preserve the modification time.
type FileStamp = Option<(u64, u64, u64, i64, i64, i64, i64)>;

/// The states of files when the configuration was read, and at the last check.
#[derive(Default)]
pub struct FileStamps {
    stamps_at_read: HashMap<PathBuf, FileStamp>,
    stamps_at_check: HashMap<PathBuf, FileStamp>,
}

impl FileStamps {
    /// Creates the stamps of the current states. Must be called before the files are read, so that
    /// later changes are detected.
    pub(super) fn new(files: impl IntoIterator<Item = PathBuf>) -> Self {
        Self::default().restrict_to(files)
    }

    /// Adds the current states of further files.
    pub(super) fn with_files(self, files: impl IntoIterator<Item = PathBuf>) -> Self {
        let stamped_files: Vec<_> = self.stamps_at_read.keys().cloned().collect();
        self.restrict_to(stamped_files.into_iter().chain(files))
    }

    /// Restricts the stamps to `files`; adds the current states of those files that had no stamp.
    pub(super) fn restrict_to(self, files: impl IntoIterator<Item = PathBuf>) -> Self {
        let stamps = files.into_iter().map(|file| {
            let old_stamp = self.stamps_at_read.get(&file).copied();
            let stamp = old_stamp.unwrap_or_else(|| read_stamp(&file));
            (file, stamp)
        });
        let stamps_at_read: HashMap<_, _> = stamps.collect();
        let stamps_at_check = stamps_at_read.clone();
        Self {
            stamps_at_read,
            stamps_at_check,
        }
    }

    /// Returns whether a file has changed since it was read, but not since the last check. A file
    /// that is still changing is not reported, because the incomplete text of a file that is being
    /// written may be a valid configuration.
    pub(super) fn have_changed_and_settled(&mut self) -> bool {
        let files = self.stamps_at_read.keys();
        let current_stamps: HashMap<_, _> =
            files.map(|file| (file.clone(), read_stamp(file))).collect();
        let has_settled = current_stamps == self.stamps_at_check;
        self.stamps_at_check = current_stamps;
        has_settled && self.stamps_at_check != self.stamps_at_read
    }
}

fn read_stamp(file: &Path) -> FileStamp {
    let metadata = std::fs::metadata(file).ok()?;
    Some((
        metadata.dev(),
        metadata.ino(),
        metadata.size(),
        metadata.mtime(),
        metadata.mtime_nsec(),
        metadata.ctime(),
        metadata.ctime_nsec(),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_counts_as_changed_once_it_is_stable() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("pillion.toml");
        let mut stamps = FileStamps::new([file.clone()]);
        assert!(!stamps.have_changed_and_settled());
        std::fs::write(&file, "a").unwrap();
        assert!(!stamps.have_changed_and_settled());
        std::fs::write(&file, "ab").unwrap();
        assert!(!stamps.have_changed_and_settled());
        assert!(stamps.have_changed_and_settled());
    }

    #[test]
    fn a_change_during_an_update_of_the_watched_files_is_detected() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("pillion.toml");
        let (gone, new) = (
            file.with_file_name("old.yaml"),
            file.with_file_name("new.yaml"),
        );
        std::fs::write(&file, "as it is read").unwrap();
        let before = FileStamps::new([file.clone(), gone.clone()]);
        std::fs::write(&file, "changed after it was read").unwrap();
        std::fs::write(&new, "one of its documents").unwrap();
        let mut stamps = before.restrict_to([file.clone(), new.clone()]);
        assert!(!stamps.have_changed_and_settled());
        assert!(stamps.have_changed_and_settled());
        // A newly watched file and a file that is no longer watched do not count as changed.
        let mut stamps = FileStamps::new([file.clone()]).restrict_to([file, new]);
        std::fs::write(&gone, "whatever").unwrap();
        assert!(!stamps.have_changed_and_settled());
        assert!(!stamps.have_changed_and_settled());
    }
}
