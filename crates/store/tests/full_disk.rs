//! Tests a full disk, with a small file system in memory.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::Path;
use std::process::Command;

use pillion_core::store::{
    CallFilter, CallLog, CallStatus, PageRequest, StoreErrorKind, ToolCallRecord,
};
use pillion_store::{SqlStore, StoreOptions};

use crate::contract::{all_pages, assert_fails, assert_pages, at, ended, interrupt_all, running};
use crate::other_process::{self, print_line};

/// A shell command that mounts a private file system of 8 MiB at its first argument while it runs
/// the rest of its arguments.
const WITH_DISK: &str = "disk=$1; shift; mount -t tmpfs -o size=8m none \"$disk\" || exit; \
    \"$@\"; status=$?; umount \"$disk\"; exit $status";

/// Options of `unshare` that make a mount namespace: for root, for root in a chroot, whose root
/// directory is no mount point, and for other users, where the kernel allows user namespaces.
const NAMESPACES: [&[&str]; 3] = [
    &["--mount"],
    &["--mount", "--propagation=unchanged"],
    &["--user", "--map-root-user", "--mount"],
];

/// Returns the command that runs its arguments with a file system at `disk`, or `None` if this
/// process may not mount one.
fn with_disk(disk: &Path) -> Option<Command> {
    NAMESPACES.iter().find_map(|options| {
        let command = || {
            let mut command = Command::new("unshare");
            command.args(*options).args(["sh", "-c", WITH_DISK, "sh"]);
            command.arg(disk);
            command
        };
        let tried = command().arg("true").output().unwrap();
        tried.status.success().then(command)
    })
}

#[tokio::test]
async fn a_call_that_ends_on_a_full_disk_keeps_its_outcome() {
    let directory = tempfile::tempdir().unwrap();
    let (disk, copy) = (directory.path().join("disk"), directory.path().join("copy"));
    fs::create_dir(&disk).unwrap();
    fs::create_dir(&copy).unwrap();
    let Some(mut command) = with_disk(&disk) else {
        pillion_testkit::skip("this user may not mount a file system");
        return;
    };
    command.arg(std::env::current_exe().unwrap());
    other_process::add_task(&mut command, "end on a full disk", &disk.join("pillion.db"));
    let (mut child, output) = other_process::spawn(&mut command);
    let ids: Vec<_> = other_process::printed_lines(output).collect();
    assert!(child.wait().unwrap().success(), "{ids:?}");
    // Reads the files as a process finds them after a crash at this moment.
    let options = StoreOptions::at_file(copy.join("pillion.db"));
    let store = SqlStore::open(&options).await.unwrap();
    interrupt_all(&store, at(9_000)).await.unwrap();
    assert!(ids.len() > 3, "{ids:?}");
    for id in ids {
        let call = store.find_call(id.parse().unwrap()).await.unwrap().unwrap();
        assert_eq!(call.status, CallStatus::Success, "{call:?}");
        assert_eq!(call.arguments, "{\"sides\":6}");
    }
}

/// Ends calls while the disk of the file is full. Prints the calls, and copies all files to a
/// directory beside the disk.
pub async fn end_on_a_full_disk(file: &Path) {
    let store = SqlStore::open(&StoreOptions::at_file(file)).await.unwrap();
    let begin = || ToolCallRecord {
        arguments: "{\"sides\":6}".to_owned(),
        ..running("roll")
    };
    let calls: Vec<_> = (0..20).map(|_| begin()).collect();
    for call in &calls {
        store.record_local_call(call.clone()).await.unwrap();
    }
    let disk = file.parent().unwrap();
    let mut filler = File::create(disk.join("filler")).unwrap();
    let full = loop {
        match filler.write_all(&[7; 1024]) {
            Ok(()) => {}
            Err(error) => break error,
        }
    };
    assert_eq!(full.kind(), ErrorKind::StorageFull);
    drop(filler);
    // The results of all calls together do not fit into the reserved space.
    for call in &calls {
        let mut end = ended(call, CallStatus::Success);
        end.result = Some("x".repeat(50_000));
        store.record_local_call(end).await.unwrap();
    }
    let begun = store.record_local_call(begin()).await;
    assert_fails(begun, StoreErrorKind::Unavailable);
    let filter = CallFilter {
        status: Some(CallStatus::Success),
        ..CallFilter::default()
    };
    let listing = all_pages(PageRequest::first(15), async |page| {
        store.calls(&filter, &page).await
    });
    let pages = listing.await;
    let ids: Vec<_> = calls.iter().rev().map(|call| call.id).collect();
    assert_pages(&pages, &ids, &[15, 5]);
    let result = pages[0][0].result.as_ref();
    assert_eq!(result.map(String::len), Some(50_000));

    let copy = disk.with_file_name("copy");
    for entry in fs::read_dir(disk).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap();
        if name != "filler" {
            fs::write(copy.join(name), fs::read(&path).unwrap()).unwrap();
        }
    }
    for call in calls {
        print_line(&call.id.to_string());
    }
    // When the disk has room again, calls can begin, and the waiting records reach the database.
    fs::remove_file(disk.join("filler")).unwrap();
    let last = begin();
    store.record_local_call(last.clone()).await.unwrap();
    assert_eq!(store.find_call(last.id).await.unwrap(), Some(last));
    store.close().await;
}
