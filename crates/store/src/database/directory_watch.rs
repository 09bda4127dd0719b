use std::fs::{self, File};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::Path;

use parking_lot::Mutex;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::fs::Timespec;
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use rustix::io::{Errno, read};

const NO_WAIT: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 0,
};

/// Counts the files that are created, deleted or renamed in a directory, the renames of its parent
/// directories, and changes of the mounts of this process's namespace, with inotify and epoll.
///
/// As long as the count stays the same, each file is still at its path. One `epoll_wait` takes a
/// fraction of the time of a `stat` of each file.
#[derive(Debug)]
pub(super) struct DirectoryWatch(Option<EventQueue>);

#[derive(Debug)]
struct EventQueue {
    /// An epoll instance, which is ready when `files` has events or when the mounts have changed.
    ready: OwnedFd,
    files: OwnedFd,
    /// The list of mounts, kept open. The kernel reports each change of the mounts once.
    _mounts: File,
    /// The number of changes. Locked while the queue is read, so that no caller gets a count
    /// without the changes that another caller has just read.
    changes: Mutex<u64>,
}

impl DirectoryWatch {
    /// Watches the directory of a file.
    ///
    /// The watch counts nothing if the system provides no inotify instance or no `/proc`, if this
    /// user may not read a directory of the path, or if a part of the path is a symbolic link,
    /// which could be changed without a change in the directory.
    pub(super) fn for_file(file: &Path) -> Self {
        Self(EventQueue::open(file))
    }

    /// Returns the number of changes since the watch began, or `None` if the watch counts nothing.
    pub(super) fn changes(&self) -> Option<u64> {
        self.0.as_ref().and_then(|queue| queue.changes())
    }
}

impl EventQueue {
    fn open(file: &Path) -> Option<Self> {
        if fs::canonicalize(file).ok()? != file {
            return None;
        }
        let files = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).ok()?;
        let flags = WatchFlags::CREATE
            | WatchFlags::DELETE
            | WatchFlags::MOVE
            | WatchFlags::DELETE_SELF
            | WatchFlags::MOVE_SELF
            | WatchFlags::ONLYDIR;
        let directory = file.parent()?;
        inotify::add_watch(&files, directory, flags).ok()?;
        for above in directory.ancestors().skip(1) {
            let flags = WatchFlags::MOVE_SELF | WatchFlags::ONLYDIR;
            inotify::add_watch(&files, above, flags).ok()?;
        }
        let mounts = File::open("/proc/self/mountinfo").ok()?;
        let ready = epoll::create(epoll::CreateFlags::CLOEXEC).ok()?;
        let [files_event, mounts_event] = [0, 1].map(EventData::new_u64);
        epoll::add(&ready, &files, files_event, EventFlags::IN).ok()?;
        let changed = EventFlags::PRI | EventFlags::ERR | EventFlags::ET;
        epoll::add(&ready, &mounts, mounts_event, changed).ok()?;
        let queue = Self {
            ready,
            files,
            _mounts: mounts,
            changes: Mutex::new(0),
        };
        // The first event may only report that the file was never polled.
        queue.changes()?;
        *queue.changes.lock() = 0;
        Some(queue)
    }

    fn changes(&self) -> Option<u64> {
        let mut changes = self.changes.lock();
        let mut events = [const { MaybeUninit::uninit() }; 2];
        let (events, _) = epoll::wait(&self.ready, &mut events, Some(&NO_WAIT)).ok()?;
        if events.is_empty() {
            return Some(*changes);
        }
        match read(&self.files, &mut [0_u8; 512]) {
            Ok(_) | Err(Errno::AGAIN) => *changes += 1,
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
        let watch = DirectoryWatch::for_file(&file);
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
    fn a_rename_of_a_directory_further_up_is_a_change() {
        let directory = tempfile::tempdir().unwrap();
        let directory = fs::canonicalize(directory.path()).unwrap();
        let [above, moved] = ["above", "moved"].map(|name| directory.join(name));
        fs::create_dir_all(above.join("one/two")).unwrap();
        let file = above.join("one/two/a.db");
        fs::write(&file, "1").unwrap();
        let watch = DirectoryWatch::for_file(&file);
        assert_eq!(watch.changes(), Some(0));
        fs::rename(&above, &moved).unwrap();
        assert_eq!(watch.changes(), Some(1));
        assert_eq!(watch.changes(), Some(1));
    }

    #[test]
    fn a_path_with_a_symbolic_link_is_not_watched() {
        let directory = tempfile::tempdir().unwrap();
        let [file, link] = ["a.db", "link.db"].map(|name| directory.path().join(name));
        fs::write(&file, "1").unwrap();
        symlink(&file, &link).unwrap();
        assert_eq!(DirectoryWatch::for_file(&link).changes(), None);

        let linked = directory.path().join("linked");
        symlink(directory.path(), &linked).unwrap();
        assert_eq!(
            DirectoryWatch::for_file(&linked.join("a.db")).changes(),
            None
        );
    }
}
