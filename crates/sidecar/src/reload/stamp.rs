use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// What tells one state of a file from another without reading it; none for a file that is
/// not there.
type Stamp = Option<(u64, u64, i64, i64)>;

/// Files as they were when the configuration was read, and at the last look.
#[derive(Default)]
pub(crate) struct Stamps {
    read: HashMap<PathBuf, Stamp>,
    seen: HashMap<PathBuf, Stamp>,
}

impl Stamps {
    /// As they are now. They are to be read after that: what changes meanwhile has changed.
    pub(super) fn of(files: impl IntoIterator<Item = PathBuf>) -> Self {
        Self::default().narrowed_to(files)
    }

    /// Of these files, as they were when they were looked at; of those that were not, as they are
    /// now.
    pub(super) fn narrowed_to(self, files: impl IntoIterator<Item = PathBuf>) -> Self {
        let stamps = files.into_iter().map(|file| {
            let known = self.read.get(&file).copied();
            let stamp = known.unwrap_or_else(|| stamp_of(&file));
            (file, stamp)
        });
        let read: HashMap<_, _> = stamps.collect();
        let seen = read.clone();
        Self { read, seen }
    }

    /// Whether a file has changed and no longer does: one that is just being written may be
    /// half there, and half a configuration may be a good one.
    pub(super) fn have_changed_and_settled(&mut self) -> bool {
        let files = self.read.keys();
        let now: HashMap<_, _> = files.map(|file| (file.clone(), stamp_of(file))).collect();
        let has_settled = now == self.seen;
        self.seen = now;
        has_settled && self.seen != self.read
    }
}

fn stamp_of(file: &Path) -> Stamp {
    let metadata = std::fs::metadata(file).ok()?;
    Some((
        metadata.ino(),
        metadata.size(),
        metadata.mtime(),
        metadata.mtime_nsec(),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_counts_as_changed_once_it_stays_as_it_is() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("pillion.toml");
        let mut stamps = Stamps::of([file.clone()]);
        assert!(!stamps.have_changed_and_settled());
        std::fs::write(&file, "a").unwrap();
        assert!(!stamps.have_changed_and_settled());
        std::fs::write(&file, "ab").unwrap();
        assert!(!stamps.have_changed_and_settled());
        assert!(stamps.have_changed_and_settled());
    }

    #[test]
    fn what_changes_while_other_files_come_to_be_watched_has_changed() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("pillion.toml");
        let (gone, new) = (
            file.with_file_name("old.yaml"),
            file.with_file_name("new.yaml"),
        );
        std::fs::write(&file, "as it is read").unwrap();
        let before = Stamps::of([file.clone(), gone.clone()]);
        std::fs::write(&file, "as nobody has read it").unwrap();
        std::fs::write(&new, "one of its documents").unwrap();
        let mut stamps = before.narrowed_to([file.clone(), new.clone()]);
        assert!(!stamps.have_changed_and_settled());
        assert!(stamps.have_changed_and_settled());
        // The new one alone is no reason, nor is one that is not watched any more.
        let mut stamps = Stamps::of([file.clone()]).narrowed_to([file, new]);
        std::fs::write(&gone, "whatever").unwrap();
        assert!(!stamps.have_changed_and_settled());
        assert!(!stamps.have_changed_and_settled());
    }
}
