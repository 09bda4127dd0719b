use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Identifies the state of a file without reading the file; `None` if the file does not exist. The
/// time of the last change of the inode also shows changes that preserve the modification time.
type FileStamp = Option<(u64, u64, u64, i64, i64, i64, i64)>;

/// The states of files when the configuration was read, and at the last check.
#[derive(Default)]
pub struct FileStamps {
    read: HashMap<PathBuf, FileStamp>,
    seen: HashMap<PathBuf, FileStamp>,
}

impl FileStamps {
    /// Creates the stamps of the current states. Call this before reading the files, so that later changes are
    /// detected.
    pub(super) fn new(files: impl IntoIterator<Item = PathBuf>) -> Self {
        Self::default().restrict_to(files)
    }

    /// Adds the current states of further files.
    pub(super) fn extended_by(self, files: impl IntoIterator<Item = PathBuf>) -> Self {
        let known: Vec<_> = self.read.keys().cloned().collect();
        self.restrict_to(known.into_iter().chain(files))
    }

    /// Restricts the stamps to `files`; adds the current states of those files that had no stamp.
    pub(super) fn restrict_to(self, files: impl IntoIterator<Item = PathBuf>) -> Self {
        let stamps = files.into_iter().map(|file| {
            let known = self.read.get(&file).copied();
            let stamp = known.unwrap_or_else(|| stamp_of(&file));
            (file, stamp)
        });
        let read: HashMap<_, _> = stamps.collect();
        let seen = read.clone();
        Self { read, seen }
    }

    /// Returns whether a file has changed since it was read, but not since the last check. While a
    /// file is being written, an incomplete text may be a valid configuration.
    pub(super) fn have_changed_and_settled(&mut self) -> bool {
        let files = self.read.keys();
        let now: HashMap<_, _> = files.map(|file| (file.clone(), stamp_of(file))).collect();
        let has_settled = now == self.seen;
        self.seen = now;
        has_settled && self.seen != self.read
    }
}

fn stamp_of(file: &Path) -> FileStamp {
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
