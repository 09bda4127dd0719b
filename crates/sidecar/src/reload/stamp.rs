use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// What tells one state of a file from another without reading it; none for a file that is
/// not there.
type Stamp = Option<(u64, u64, i64, i64)>;

/// Files as they were when the configuration was read, and at the last look.
pub(super) struct Stamps {
    read: Vec<Stamp>,
    seen: Vec<Stamp>,
}

impl Stamps {
    pub(super) fn of(files: &[PathBuf]) -> Self {
        let read = look(files);
        let seen = read.clone();
        Self { read, seen }
    }

    /// Whether a file has changed and no longer does: one that is just being written may be
    /// half there, and half a configuration may be a good one.
    pub(super) fn have_changed_and_settled(&mut self, files: &[PathBuf]) -> bool {
        let now = look(files);
        let has_settled = now == self.seen;
        self.seen = now;
        has_settled && self.seen != self.read
    }
}

fn look(files: &[PathBuf]) -> Vec<Stamp> {
    files.iter().map(|file| stamp_of(file)).collect()
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
        let files = [directory.path().join("pillion.toml")];
        let mut stamps = Stamps::of(&files);
        assert!(!stamps.have_changed_and_settled(&files));
        std::fs::write(&files[0], "a").unwrap();
        assert!(!stamps.have_changed_and_settled(&files));
        std::fs::write(&files[0], "ab").unwrap();
        assert!(!stamps.have_changed_and_settled(&files));
        assert!(stamps.have_changed_and_settled(&files));
    }
}
