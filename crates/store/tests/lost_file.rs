//! If the database file is deleted or replaced while the store is open, no lost write is
//! acknowledged.

use std::fs;
use std::path::Path;

use pillion_core::store::{
    CallFilter, CallLog, CallStatus, PageRequest, SettingsStore, StoreErrorKind,
};
use pillion_store::{SqlStore, StoreOptions};

use crate::contract::{assert_fails, ended, running};
use crate::other_process::{self, print_line};
use crate::spool_files;

async fn assert_unavailable(store: &SqlStore) {
    let call = running("roll");
    let errors = [
        store.record_local_call(call.clone()).await.unwrap_err(),
        store.record_call(call).await.unwrap_err(),
        store.set_setting("a", "2").await.unwrap_err(),
        store.find_setting("a").await.unwrap_err(),
    ];
    for error in errors {
        assert!(error.is_unavailable(), "{error:?}");
        assert!(error.to_string().contains("deleted or replaced"), "{error}");
    }
    let failure = store.file_failure().unwrap();
    assert!(failure.contains("pillion.db"), "{failure}");
}

#[tokio::test]
async fn a_store_whose_file_was_removed_acknowledges_no_call() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("pillion.db");
    let moved = directory.path().join("moved.db");
    let store = SqlStore::open(&StoreOptions::at_file(&file)).await.unwrap();
    store.set_setting("a", "1").await.unwrap();
    assert_eq!(store.file_failure(), None);
    let call = running("roll");
    store.record_local_call(call.clone()).await.unwrap();
    let other = running("roll");
    store.record_local_call(other.clone()).await.unwrap();

    fs::rename(&file, &moved).unwrap();
    assert_unavailable(&store).await;
    let end_of_other = ended(&other, CallStatus::Success);
    let recorded = store.record_local_call(end_of_other.clone()).await;
    assert_fails(recorded, StoreErrorKind::Unavailable);
    // Another file at the path of the store is not this store.
    fs::write(&file, "a backup").unwrap();
    assert_unavailable(&store).await;
    fs::rename(&moved, &file).unwrap();
    assert_eq!(store.file_failure(), None);
    let end = ended(&call, CallStatus::Success);
    store.record_local_call(end.clone()).await.unwrap();
    assert_eq!(store.find_call(call.id).await.unwrap(), Some(end));
    // The end of the call that was rejected while the file was away is not lost, because the call
    // has run.
    assert_eq!(store.find_call(other.id).await.unwrap(), Some(end_of_other));
    assert_eq!(store.find_setting("a").await.unwrap().as_deref(), Some("1"));

    // The write-ahead log is part of the store: only the log contains the latest commits.
    let log = directory.path().join("pillion.db-wal");
    fs::rename(&log, &moved).unwrap();
    assert_unavailable(&store).await;
    fs::rename(&moved, &log).unwrap();
    assert_eq!(store.file_failure(), None);

    fs::remove_file(&file).unwrap();
    assert_unavailable(&store).await;
}

#[tokio::test]
async fn a_removed_spool_file_is_created_again() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("pillion.db");
    let store = SqlStore::open(&StoreOptions::at_file(&file)).await.unwrap();
    for _ in 0..4 {
        let (before, after) = (running("roll"), running("roll"));
        store.record_local_call(before.clone()).await.unwrap();
        for path in spool_files(directory.path()) {
            fs::remove_file(path).unwrap();
        }
        store.record_local_call(after.clone()).await.unwrap();
        // Reads the files as a process finds them after a crash.
        let crashed = tempfile::tempdir().unwrap();
        let copied = crashed.path().join("pillion.db");
        store.backup(&copied).await.unwrap();
        let options = StoreOptions::at_file(&copied);
        let copy = SqlStore::open(&options).await.unwrap();
        let all = PageRequest::first(100);
        let calls = copy.calls(&CallFilter::default(), &all).await.unwrap();
        let ids: Vec<_> = calls.items.iter().map(|call| call.id).collect();
        assert!(ids.contains(&before.id) && ids.contains(&after.id));
    }
}

#[tokio::test]
async fn a_store_acknowledges_no_call_after_a_change_further_up_its_path() {
    let temporary = tempfile::tempdir().unwrap();
    let directory = fs::canonicalize(temporary.path()).unwrap();
    let [above, moved] = ["above", "moved"].map(|name| directory.join(name));
    fs::create_dir_all(above.join("state")).unwrap();
    let file = above.join("state/pillion.db");
    let store = SqlStore::open(&StoreOptions::at_file(&file)).await.unwrap();
    store.record_local_call(running("roll")).await.unwrap();
    fs::rename(&above, &moved).unwrap();
    let recorded = store.record_local_call(running("roll")).await;
    assert_fails(recorded, StoreErrorKind::Unavailable);
    fs::rename(&moved, &above).unwrap();
    store.record_local_call(running("roll")).await.unwrap();

    let mut child = std::process::Command::new("unshare");
    child.arg("--mount").arg(std::env::current_exe().unwrap());
    let mounted = directory.join("mounted");
    fs::create_dir(&mounted).unwrap();
    other_process::add_task(&mut child, "mount over", &mounted.join("pillion.db"));
    let Ok(output) = child.output() else {
        return; // `unshare` is not installed.
    };
    let lines: Vec<_> = other_process::printed_lines(&output.stdout[..]).collect();
    // Only root can mount.
    assert!(lines == ["Unavailable"] || lines.is_empty(), "{output:?}");
}

/// Mounts a file system over the directory of an open store, in a private namespace.
pub async fn mount_over(file: &Path) {
    let store = SqlStore::open(&StoreOptions::at_file(file)).await.unwrap();
    store.record_local_call(running("roll")).await.unwrap();
    let mut mount = std::process::Command::new("mount");
    mount
        .args(["-t", "tmpfs", "none"])
        .arg(file.parent().unwrap());
    if !mount.status().unwrap().success() {
        return;
    }
    match store.record_local_call(running("roll")).await {
        Ok(()) => print_line("acknowledged"),
        Err(error) => print_line(&format!("{:?}", error.kind())),
    }
}
