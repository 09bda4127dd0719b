use std::fs;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use rustix::io::{Errno, read};

/// Counts the files that are created, deleted or renamed in a directory, with inotify.
///
/// As long as the count stays the same, each file is still at the path where it was. One `read` of
/// the event queue takes a fraction of the time of a `stat` of each file. A rename of a directory
/// further up is not counted, nor a mount over the directory. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct DirectoryWatch(Option<Arc<EventQueue>>);

#[derive(Debug)]
struct EventQueue {
    descriptor: OwnedFd,
    /// Locked while the queue is read, so that no caller gets a count without the changes that
    /// another caller has just read.
    changes: Mutex<u64>,
}

impl DirectoryWatch {
    /// Watches the directory of a file.
    ///
    /// The watch counts nothing if the system has no inotify instance left, or if a part of the
    /// path is a symbolic link, which could be changed without a change in the directory.
    pub(super) fn beside(file: &Path) -> Self {
        Self(EventQueue::open(file).map(Arc::new))
    }

    /// Returns the number of changes since the watch began, or `None` if the watch counts nothing.
    pub(crate) fn changes(&self) -> Option<u64> {
        self.0.as_ref().and_then(|queue| queue.changes())
    }
}

impl EventQueue {
    fn open(file: &Path) -> Option<Self> {
        if fs::canonicalize(file).ok()? != file {
            return None;
        }
        let descriptor = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).ok()?;
        let flags = WatchFlags::CREATE
            | WatchFlags::DELETE
            | WatchFlags::MOVE
            | WatchFlags::DELETE_SELF
            | WatchFlags::MOVE_SELF
            | WatchFlags::ONLYDIR;
        inotify::add_watch(&descriptor, file.parent()?, flags).ok()?;
        Some(Self {
            descriptor,
            changes: Mutex::new(0),
        })
    }

    fn changes(&self) -> Option<u64> {
        let mut changes = self.changes.lock();
        match read(&self.descriptor, &mut [0_u8; 512]) {
            Ok(_) => *changes += 1,
            Err(Errno::AGAIN) => {}
            Err(_) => return None,
        }
        Some(*changes)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn new_deleted_and_renamed_files_are_changes_and_writes_are_not() {
        let directory = tempfile::tempdir().unwrap();
        let [file, other] = ["a.db", "b"].map(|name| directory.path().join(name));
        fs::write(&file, "1").unwrap();
        let watch = DirectoryWatch::beside(&file);
        assert_eq!(watch.changes(), Some(0));
        fs::write(&file, "22").unwrap();
        assert_eq!(watch.changes(), Some(0));

        let mut seen = 0;
        let mut assert_changed = |what: &str| {
            let now = watch.changes().unwrap();
            assert!(now > seen, "{what}");
            seen = now;
            assert_eq!(watch.changes(), Some(seen), "{what}");
        };
        fs::write(&other, "").unwrap();
        assert_changed("created");
        fs::rename(&other, &file).unwrap();
        assert_changed("renamed");
        fs::remove_file(&file).unwrap();
        assert_changed("deleted");
        let moved = directory.path().with_extension("moved");
        fs::rename(directory.path(), &moved).unwrap();
        assert_changed("directory renamed");
        fs::remove_dir(&moved).unwrap();
        assert_changed("directory deleted");
    }

    #[test]
    fn a_path_with_a_symbolic_link_is_not_watched() {
        let directory = tempfile::tempdir().unwrap();
        let [file, link] = ["a.db", "link.db"].map(|name| directory.path().join(name));
        fs::write(&file, "1").unwrap();
        symlink(&file, &link).unwrap();
        assert_eq!(DirectoryWatch::beside(&link).changes(), None);

        let linked = directory.path().join("linked");
        symlink(directory.path(), &linked).unwrap();
        assert_eq!(DirectoryWatch::beside(&linked.join("a.db")).changes(), None);
    }
}
