//! Acknowledged writes survive any end of the process.

use std::collections::HashMap;
use std::fs;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pillion_core::store::{CallId, CallLog, CallStatus, StoreErrorKind};
use pillion_store::{SqlStore, StoreOptions};

use crate::contract::{assert_fails, running};
use crate::other_process::{self, DatabaseLock};
use crate::spool_files;

#[tokio::test]
async fn a_spool_file_is_read_once_its_process_has_ended() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("pillion.db");
    let options = StoreOptions::at_file(&file);
    // While another process locks the database, records stay in the spool files.
    let store = SqlStore::open(&options).await.unwrap();
    let lock = DatabaseLock::acquire(&file);
    let call = running("roll");
    store.record_local_call(call.clone()).await.unwrap();
    let lost = running("lost");
    let spools = spool_files(directory.path()).into_iter();
    let text: String = spools
        .map(|path| fs::read_to_string(path).unwrap())
        .collect();
    assert_eq!(text.matches("running").count(), 1, "{text}");
    // The files are those of a process that was killed in the middle of a write, and of a process
    // whose record is not text.
    let (line, _checksum) = text.trim_start().rsplit_once(",\"crc32\":").unwrap();
    let line_of = |id: CallId| {
        let line = line.replace(&call.id.to_string(), &id.to_string());
        let checksum = crc32fast::hash(format!("{line}}}").as_bytes());
        format!("\n{line},\"crc32\":{checksum}}}")
    };
    let half = line_of(lost.id);
    let other = running("draw");
    let whole = line_of(other.id);
    let bytes = [b"\n\xff\0", &half.as_bytes()[..80], whole.as_bytes()].concat();
    let spool = directory.path().join("pillion.db.calls-0123456789abcdef");
    fs::write(spool, bytes).unwrap();
    lock.release();

    // Another process reads the files without an owner, and does not touch the files of this
    // process.
    let second = SqlStore::open(&options).await.unwrap();
    assert!(second.find_call(other.id).await.unwrap().is_some());
    assert_eq!(second.find_call(lost.id).await.unwrap(), None);
    assert_eq!(spool_files(directory.path()).len(), 4);
    assert_eq!(store.find_call(call.id).await.unwrap(), Some(call.clone()));
    store.close().await;
    let late = store.record_local_call(running("late")).await;
    assert_fails(late, StoreErrorKind::Unavailable);
    second.close().await;
    assert_eq!(spool_files(directory.path()).len(), 0);
    let third = SqlStore::open(&options).await.unwrap();
    assert_eq!(third.find_call(call.id).await.unwrap(), Some(call));
}

#[tokio::test]
async fn a_killed_process_loses_no_acknowledged_call() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("pillion.db");
    let mut acknowledged: HashMap<CallId, CallStatus> = HashMap::new();
    for round in 0..12_u64 {
        let (mut child, output) = other_process::start("write", &file);
        let mut lines = other_process::printed_lines(output);
        let first = lines.next().unwrap();
        // Kills the process at a different time in each round.
        std::thread::sleep(Duration::from_millis((round * 37) % 120));
        child.kill().unwrap();
        for line in std::iter::once(first).chain(lines) {
            let (id, status) = line.split_once(' ').unwrap();
            let Some(status) = CallStatus::from_name(status) else {
                continue; // The kill cut this line.
            };
            acknowledged.insert(id.parse().unwrap(), status);
        }
        child.wait().unwrap();
    }
    assert!(acknowledged.len() > 12 * 8, "{}", acknowledged.len());
    let store = SqlStore::open(&StoreOptions::at_file(&file)).await.unwrap();
    // The two spool files of this store are left.
    assert_eq!(spool_files(directory.path()).len(), 2);
    assert_has_all(&store, &acknowledged).await;
}

async fn assert_has_all(store: &SqlStore, acknowledged: &HashMap<CallId, CallStatus>) {
    for (id, status) in acknowledged {
        let call = store.find_call(*id).await.unwrap();
        let stored = call.unwrap_or_else(|| panic!("{id} is lost")).status;
        // A write may have succeeded without its acknowledgment.
        let has_ended = *status == CallStatus::Running && stored == CallStatus::Success;
        assert!(
            stored == *status || has_ended,
            "{id}: {stored:?}, {status:?} was acknowledged"
        );
    }
}

#[tokio::test]
async fn a_copy_contains_calls_that_another_process_acknowledged() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("pillion.db");
    let (mut writing, output) = other_process::start("write", &file);
    let acknowledged = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&acknowledged);
    let reading = std::thread::spawn(move || {
        for line in other_process::printed_lines(output) {
            let (id, status) = line.split_once(' ').unwrap();
            // The kill of the process may cut the last line.
            if let Some(status) = CallStatus::from_name(status) {
                seen.lock().unwrap().push((id.parse().unwrap(), status));
            }
        }
    });
    for round in 1..=5 {
        while acknowledged.lock().unwrap().len() < round * 300 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let opened = SqlStore::open_existing(&StoreOptions::at_file(&file)).await;
        let store = opened.unwrap();
        // The latest calls are still in the spool files; checking all calls would take long.
        let calls = acknowledged.lock().unwrap().clone();
        let before = calls[calls.len() - 200..].iter().copied().collect();
        let copy = directory.path().join(format!("copy-{round}.db"));
        store.backup(&copy).await.unwrap();
        let copy = SqlStore::open(&StoreOptions::at_file(&copy)).await.unwrap();
        assert_has_all(&copy, &before).await;
        copy.close().await;
        store.close().await;
    }
    writing.kill().unwrap();
    writing.wait().unwrap();
    reading.join().unwrap();
}
