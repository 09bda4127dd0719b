//! With a full disk, and with a locked, read-only or damaged file, errors are clear and no lost
//! write is acknowledged.

use std::fs::{self, Permissions};
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pillion_core::store::{
    CallFilter, CallId, CallLog, CallStatus, PageRequest, SettingsStore, StoreError, StoreErrorKind,
};
use pillion_store::{SqlStore, StoreOptions};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{Connection, Executor, SqliteConnection};
use tokio::task::JoinSet;

use crate::contract::{assert_fails, ended, running};
use crate::other_process::{self, DatabaseLock};

#[tokio::test]
async fn a_full_store_is_unavailable_and_loses_no_acknowledged_call() {
    let directory = tempfile::tempdir().unwrap();
    let mut options = StoreOptions::at_file(directory.path().join("pillion.db"));
    options.max_file_bytes = Some(2 * 1024 * 1024);
    let store = Arc::new(SqlStore::open(&options).await.unwrap());
    let tasks: Vec<_> = (0..4)
        .map(|_| {
            let store = Arc::clone(&store);
            tokio::spawn(async move {
                let mut outcomes = Vec::new();
                for _ in 0..25 {
                    let mut call = running("roll");
                    call.arguments = "x".repeat(50_000);
                    outcomes.push((call.id, store.record_call(call).await));
                }
                outcomes
            })
        })
        .collect();
    let mut stored_calls = 0;
    for task in tasks {
        for (id, outcome) in task.await.unwrap() {
            let stored = store.find_call(id).await.unwrap().is_some();
            assert_eq!(stored, outcome.is_ok());
            match outcome {
                Ok(()) => stored_calls += 1,
                Err(error) => assert!(error.is_unavailable(), "{error:?}"),
            }
        }
    }
    assert!((1..100).contains(&stored_calls), "{stored_calls}");
    // A small value either still fits or is rejected with the same error.
    if let Err(error) = store.set_setting("a", "1").await {
        assert!(error.is_unavailable(), "{error:?}");
    }
}

#[tokio::test]
async fn a_full_disk_is_unavailable_and_loses_no_acknowledged_call() {
    for task in ["fill", "fill with local calls"] {
        fill_the_disk(task).await;
    }
}

async fn fill_the_disk(task: &str) {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("pillion.db");
    // The maximum file size is 2 MiB. Without the trap, a signal would end the process when a file
    // reaches this size.
    let mut command = Command::new("sh");
    let script = "trap '' XFSZ; ulimit -f 4096; exec \"$0\" \"$@\"";
    command
        .args(["-c", script])
        .arg(std::env::current_exe().unwrap());
    other_process::add_task(&mut command, task, &file);
    let (mut child, output) = other_process::spawn(&mut command);
    let mut acknowledged: Vec<_> = other_process::printed_lines(output).collect();
    assert!(child.wait().unwrap().success());
    assert_eq!(acknowledged.pop().as_deref(), Some("full"));
    assert!(acknowledged.len() > 5, "{}", acknowledged.len());
    let store = SqlStore::open(&StoreOptions::at_file(&file)).await.unwrap();
    for id in acknowledged {
        let id: CallId = id.parse().unwrap();
        assert!(store.find_call(id).await.unwrap().is_some(), "{id} is lost");
    }
}

#[tokio::test]
async fn a_locked_file_is_unavailable_until_the_lock_is_released() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("pillion.db");
    let mut options = StoreOptions::at_file(&file);
    options.busy_timeout = Duration::from_millis(200);
    let store = SqlStore::open(&options).await.unwrap();
    store.set_setting("a", "1").await.unwrap();
    let lock = DatabaseLock::acquire(&file);

    let (first, second) = (running("roll"), running("roll"));
    let (first_write, second_write, setting) = tokio::join!(
        store.record_call(first.clone()),
        store.record_call(second.clone()),
        store.set_setting("a", "2")
    );
    for write in [first_write, second_write, setting] {
        assert_fails(write, StoreErrorKind::Unavailable);
    }
    let opened = SqlStore::open(&options).await;
    assert_fails(opened, StoreErrorKind::Unavailable);
    // Reads do not need the write lock.
    assert_eq!(store.find_setting("a").await.unwrap().as_deref(), Some("1"));

    // The spool file takes the calls of this process until the store notices the lock.
    let (third, fourth) = (running("roll"), running("roll"));
    store.record_local_call(third.clone()).await.unwrap();
    // Acknowledged records are read from memory, and running calls may end.
    assert_eq!(
        store.find_call(third.id).await.unwrap(),
        Some(third.clone())
    );
    let fourth_write = store.record_local_call(fourth.clone()).await;
    assert_fails(fourth_write, StoreErrorKind::Unavailable);
    let third = ended(&third, CallStatus::Success);
    store.record_local_call(third.clone()).await.unwrap();
    assert!(store.recording_failure().is_some());
    // A rejected call has not run, and uses no reserved space.
    let failed = ended(&fourth, CallStatus::Error);
    let failed_write = store.record_local_call(failed).await;
    assert_fails(failed_write, StoreErrorKind::Unavailable);
    let all = PageRequest::first(10);
    let listed = store.calls(&CallFilter::default(), &all).await.unwrap();
    assert_eq!(listed.items, std::slice::from_ref(&third));

    lock.release();
    store.record_local_call(fourth.clone()).await.unwrap();
    assert_eq!(store.find_call(third.id).await.unwrap(), Some(third));
    assert_eq!(store.find_call(fourth.id).await.unwrap(), Some(fourth));
    assert_eq!(store.find_call(first.id).await.unwrap(), None);
    store.record_call(first.clone()).await.unwrap();
    assert_eq!(store.find_call(first.id).await.unwrap(), Some(first));
}

/// Returns how long the write took, which must fail as `unavailable`.
async fn time_until_rejected<T>(write: impl Future<Output = Result<T, StoreError>>) -> Duration {
    let start = Instant::now();
    assert_fails(write.await, StoreErrorKind::Unavailable);
    start.elapsed()
}

#[tokio::test]
async fn no_write_waits_long_for_a_lock_and_the_health_shows_the_lock_without_writes() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("pillion.db");
    let store = SqlStore::open(&StoreOptions::at_file(&file)).await.unwrap();
    let store = Arc::new(store);
    store.check_health().await;
    assert_eq!(store.recording_failure(), None);
    let lock = DatabaseLock::acquire(&file);

    tokio::time::sleep(Duration::from_secs(1)).await;
    store.check_health().await;
    let failure = store.recording_failure().unwrap();
    assert!(failure.contains("locked"), "{failure}");
    let mut writes = JoinSet::new();
    for number in 0..60 {
        let store = Arc::clone(&store);
        writes.spawn(async move {
            tokio::time::sleep(Duration::from_millis(50 * number)).await;
            match number % 3 {
                0 => time_until_rejected(store.record_call(running("roll"))).await,
                1 => time_until_rejected(store.set_setting("a", "1")).await,
                _ => {
                    // The spool file accepts calls until the store notices the lock.
                    let start = Instant::now();
                    let _ = store.record_local_call(running("roll")).await;
                    start.elapsed()
                }
            }
        });
    }
    for took in writes.join_all().await {
        assert!(took < Duration::from_millis(2_800), "{took:?}");
    }

    lock.release();
    let deadline = Instant::now() + Duration::from_secs(20);
    while let Some(failure) = store.recording_failure() {
        assert!(Instant::now() < deadline, "{failure}");
        tokio::time::sleep(Duration::from_millis(200)).await;
        store.check_health().await;
    }
}

#[tokio::test]
async fn a_read_only_file_is_unavailable() {
    let directory = tempfile::tempdir().unwrap();
    fs::set_permissions(directory.path(), Permissions::from_mode(0o755)).unwrap();
    let file = directory.path().join("pillion.db");
    let store = SqlStore::open(&StoreOptions::at_file(&file)).await.unwrap();
    store.close().await;
    fs::set_permissions(&file, Permissions::from_mode(0o444)).unwrap();
    // Root may write to any file, so the program runs as another user.
    let program = directory.path().join("program");
    // Another process copies the program: if this process had the copy open for writing, children
    // of other tests would inherit the descriptor, and the program could not be run.
    let this = std::env::current_exe().unwrap();
    let copied = Command::new("cp").arg(this).arg(&program).status();
    assert!(copied.unwrap().success());
    let mut other = Command::new(&program);
    other_process::add_task(&mut other, "open", &file);
    if fs::metadata("/proc/self").is_ok_and(|me| std::os::unix::fs::MetadataExt::uid(&me) == 0) {
        other.uid(65_534).gid(65_534);
    }
    let output = other.current_dir("/").output().unwrap();
    let lines: Vec<_> = other_process::printed_lines(&output.stdout[..]).collect();
    assert_eq!(lines, ["Unavailable"], "{output:?}");
    let nowhere = StoreOptions::at_file(directory.path().join("none/pillion.db"));
    let opened = SqlStore::open(&nowhere).await;
    assert_fails(opened, StoreErrorKind::Unavailable);
}

#[tokio::test]
async fn an_invalid_or_damaged_store_is_corrupt() {
    let directory = tempfile::tempdir().unwrap();
    let text = directory.path().join("text");
    fs::write(&text, "Dear diary, ".repeat(1_000)).unwrap();
    let opened = SqlStore::open(&StoreOptions::at_file(&text)).await;
    assert_fails(opened, StoreErrorKind::Corrupt);
    assert!(fs::read_to_string(&text).unwrap().starts_with("Dear diary"));

    let file = directory.path().join("pillion.db");
    let options = StoreOptions::at_file(&file);
    let store = SqlStore::open(&options).await.unwrap();
    for _ in 0..200 {
        let mut call = running("roll");
        call.arguments = "x".repeat(2_000);
        store.record_call(call).await.unwrap();
    }
    store.close().await;
    // Overwrites everything except the first pages, which contain the schema.
    let length = fs::metadata(&file).unwrap().len();
    let from = 60 * 4_096;
    let mut damaged = fs::OpenOptions::new().write(true).open(&file).unwrap();
    damaged.seek(SeekFrom::Start(from)).unwrap();
    let garbage = vec![0xa5; usize::try_from(length - from).unwrap()];
    damaged.write_all(&garbage).unwrap();
    let store = SqlStore::open(&options).await.unwrap();
    match store.check().await {
        Ok(found) => assert!(!found.is_empty()),
        Err(error) => assert!(error.is_corrupt(), "{error:?}"),
    }
    let all = PageRequest::first(1_000);
    let read = store.calls(&CallFilter::default(), &all).await;
    assert_fails(read, StoreErrorKind::Corrupt);
}

#[tokio::test]
async fn the_store_of_a_newer_version_is_not_changed() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("pillion.db");
    let store = SqlStore::open(&StoreOptions::at_file(&file)).await.unwrap();
    store.close().await;
    let newer = SqlStore::required_schema_version() + 1;
    let options = SqliteConnectOptions::new().filename(&file);
    let mut connection = SqliteConnection::connect_with(&options).await.unwrap();
    let sql = format!("INSERT INTO pillion_schema VALUES ({newer}, 'future', 0)");
    connection.execute(sqlx::AssertSqlSafe(sql)).await.unwrap();
    connection.close().await.unwrap();
    let opened = SqlStore::open(&StoreOptions::at_file(&file)).await;
    let error = opened.unwrap_err();
    assert!(error.is_corrupt(), "{error:?}");
    let message = error.to_string();
    assert!(message.contains("newer version of Pillion"), "{message}");
}

#[tokio::test]
async fn a_store_that_cannot_be_opened_is_named_with_the_reason() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().display().to_string();
    let opened = SqlStore::open(&StoreOptions::at_file(directory.path())).await;
    assert_eq!(
        opened.unwrap_err().to_string(),
        format!("the store '{path}' is a directory")
    );

    let unreachable = "postgres://me:s3cret@127.0.0.1:9/pillion";
    let mut options = StoreOptions::new(unreachable.parse().unwrap());
    options.busy_timeout = Duration::from_millis(200);
    let error = SqlStore::open(&options).await.unwrap_err().to_string();
    let expected = "the store in Postgres at 127.0.0.1:9 cannot be opened: Connection refused";
    assert!(error.starts_with(expected), "{error}");
}
