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
    /// An epoll instance, which is ready when `file_events` has events or when the mounts have
    /// changed.
    epoll: OwnedFd,
    file_events: OwnedFd,
    /// The list of mounts, kept open. The kernel reports each change of the mounts once.
    _mounts: File,
    /// The number of changes. Locked while events are read from the queue, so that no caller gets a
    /// count that lacks events that another caller has just read.
    change_count: Mutex<u64>,
}

impl DirectoryWatch {
    /// Watches the directory of a file.
    ///
    /// [`change_count`](Self::change_count) returns `None` if the system provides no inotify
    /// instance or no `/proc`, if this process has no permission to read a directory in the path,
    /// or if a part of the path is a symbolic link, which could be changed without a change in the
    /// directory.
    pub(super) fn for_file(file: &Path) -> Self {
        Self(EventQueue::open(file))
    }

    /// Returns the number of changes since the watch began, or `None` if changes cannot be counted.
    pub(super) fn change_count(&self) -> Option<u64> {
        self.0.as_ref().and_then(|queue| queue.change_count())
    }
}

impl EventQueue {
    fn open(file: &Path) -> Option<Self> {
        if fs::canonicalize(file).ok()? != file {
            return None;
        }
        let file_events = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).ok()?;
        let watch_flags = WatchFlags::CREATE
            | WatchFlags::DELETE
            | WatchFlags::MOVE
            | WatchFlags::DELETE_SELF
            | WatchFlags::MOVE_SELF
            | WatchFlags::ONLYDIR;
        let directory = file.parent()?;
        inotify::add_watch(&file_events, directory, watch_flags).ok()?;
        for ancestor in directory.ancestors().skip(1) {
            let ancestor_flags = WatchFlags::MOVE_SELF | WatchFlags::ONLYDIR;
            inotify::add_watch(&file_events, ancestor, ancestor_flags).ok()?;
        }
        let mounts = File::open("/proc/self/mountinfo").ok()?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).ok()?;
        let [files_event, mounts_event] = [0, 1].map(EventData::new_u64);
        epoll::add(&epoll, &file_events, files_event, EventFlags::IN).ok()?;
        let mount_flags = EventFlags::PRI | EventFlags::ERR | EventFlags::ET;
        epoll::add(&epoll, &mounts, mounts_event, mount_flags).ok()?;
        let queue = Self {
            epoll,
            file_events,
            _mounts: mounts,
            change_count: Mutex::new(0),
        };
        // The first event of the list of mounts is discarded, because it may only report that the
        // file was never polled.
        queue.change_count()?;
        *queue.change_count.lock() = 0;
        Some(queue)
    }

    fn change_count(&self) -> Option<u64> {
        let mut change_count = self.change_count.lock();
        let mut event_buffer = [const { MaybeUninit::uninit() }; 2];
        let (events, _) = epoll::wait(&self.epoll, &mut event_buffer, Some(&NO_WAIT)).ok()?;
        if events.is_empty() {
            return Some(*change_count);
        }
        match read(&self.file_events, &mut [0_u8; 512]) {
            Ok(_) | Err(Errno::AGAIN) => *change_count += 1,
            Err(_) => return None,
        }
        Some(*change_count)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn new_deleted_and_renamed_files_are_changes_and_writes_are_not() {
        let directory = tempfile::tempdir().unwrap();
        let [file, other_file] = ["a.db", "b"].map(|name| directory.path().join(name));
        fs::write(&file, "1").unwrap();
        let watch = DirectoryWatch::for_file(&file);
        assert_eq!(watch.change_count(), Some(0));
        fs::write(&file, "22").unwrap();
        assert_eq!(watch.change_count(), Some(0));

        let mut last_count = 0;
        let mut assert_changed = |change: &str| {
            let new_count = watch.change_count().unwrap();
            assert!(new_count > last_count, "{change}");
            last_count = new_count;
            assert_eq!(watch.change_count(), Some(last_count), "{change}");
        };
        fs::write(&other_file, "").unwrap();
        assert_changed("created");
        fs::rename(&other_file, &file).unwrap();
        assert_changed("renamed");
        fs::remove_file(&file).unwrap();
        assert_changed("deleted");
        let moved_directory = directory.path().with_extension("moved");
        fs::rename(directory.path(), &moved_directory).unwrap();
        assert_changed("directory renamed");
        fs::remove_dir(&moved_directory).unwrap();
        assert_changed("directory deleted");
    }

    #[test]
    fn a_rename_of_a_directory_further_up_is_a_change() {
        let temporary = tempfile::tempdir().unwrap();
        let directory = fs::canonicalize(temporary.path()).unwrap();
        let [old_path, new_path] = ["above", "moved"].map(|name| directory.join(name));
        fs::create_dir_all(old_path.join("one/two")).unwrap();
        let file = old_path.join("one/two/a.db");
        fs::write(&file, "1").unwrap();
        let watch = DirectoryWatch::for_file(&file);
        assert_eq!(watch.change_count(), Some(0));
        fs::rename(&old_path, &new_path).unwrap();
        assert_eq!(watch.change_count(), Some(1));
        assert_eq!(watch.change_count(), Some(1));
    }

    #[test]
    fn a_path_with_a_symbolic_link_is_not_watched() {
        let directory = tempfile::tempdir().unwrap();
        let [file, link] = ["a.db", "link.db"].map(|name| directory.path().join(name));
        fs::write(&file, "1").unwrap();
        symlink(&file, &link).unwrap();
        assert_eq!(DirectoryWatch::for_file(&link).change_count(), None);

        let linked_directory = directory.path().join("linked");
        symlink(directory.path(), &linked_directory).unwrap();
        assert_eq!(
            DirectoryWatch::for_file(&linked_directory.join("a.db")).change_count(),
            None
        );
    }
}
