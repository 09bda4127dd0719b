//! Files that were damaged while no process used the store: opening the store names the damaged
//! file or reports the loss, and changes no acknowledged outcome silently.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use pillion_core::store::{CallId, CallLog, CallStatus, SettingsStore, StoreError};
use pillion_store::{SqlStore, StoreOptions};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::contract::{at, ended, interrupt_all, running};
use crate::other_process::DatabaseLock;
use crate::spool_files;

/// The files of a killed process: the database, and spool files with acknowledged records.
struct Crash {
    directory: tempfile::TempDir,
    ended: Vec<CallId>,
}

impl Crash {
    async fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let live = tempfile::tempdir().unwrap();
        let file = live.path().join("pillion.db");
        let store = SqlStore::open(&StoreOptions::at_file(&file)).await.unwrap();
        store.set_setting("a", "1").await.unwrap();
        store.record_clock_reading().await.unwrap();
        // While the database is locked, records stay in the spool files.
        let lock = DatabaseLock::acquire(&file);
        let calls: Vec<_> = (0..20).map(|_| running("roll")).collect();
        for call in &calls {
            store.record_local_call(call.clone()).await.unwrap();
        }
        for call in &calls {
            let end = ended(call, CallStatus::Success);
            store.record_local_call(end).await.unwrap();
        }
        copy_files(live.path(), directory.path());
        lock.release();
        store.close().await;
        let ended = calls.iter().map(|call| call.id).collect();
        Self { directory, ended }
    }

    /// Returns a directory with a copy of the files.
    fn copy(&self) -> tempfile::TempDir {
        let copy = tempfile::tempdir().unwrap();
        copy_files(self.directory.path(), copy.path());
        copy
    }
}

/// Copies all files except the index of the write-ahead log.
fn copy_files(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if !name.ends_with("-shm") {
            fs::write(to.join(&name), fs::read(from.join(&name)).unwrap()).unwrap();
        }
    }
}

/// Opens the store as the next process does.
async fn open(directory: &Path) -> Result<SqlStore, StoreError> {
    let store = SqlStore::open(&StoreOptions::at_file(directory.join("pillion.db"))).await?;
    interrupt_all(&store, at(9_000)).await?;
    Ok(store)
}

/// Returns the number of ended calls that the store no longer finds as ended.
async fn count_changed(store: &SqlStore, crash: &Crash) -> usize {
    let mut changed = 0;
    for id in &crash.ended {
        let call = store.find_call(*id).await.unwrap();
        changed += usize::from(call.is_none_or(|call| call.status != CallStatus::Success));
    }
    changed
}

fn damage(bytes: &mut Vec<u8>, random: &mut StdRng) {
    let start = random.random_range(0..bytes.len());
    let length = random.random_range(1..=(bytes.len() - start).min(600));
    match random.random_range(0..5) {
        0 => bytes[start] ^= 1 << random.random_range(0..8),
        1 => bytes[start..start + length].fill(0),
        2 => bytes[start..start + length].fill(0xff),
        3 => bytes[start..start + length]
            .iter_mut()
            .for_each(|byte| *byte = random.random()),
        _ => drop(bytes.drain(start..start + length)),
    }
}

#[tokio::test]
async fn f4_damaged_records_are_counted_and_retained_for_examination() {
    let crash = Crash::new().await;
    let whole = crash.copy();
    let store = open(whole.path()).await.unwrap();
    assert_eq!(count_changed(&store, &crash).await, 0);
    assert_eq!(store.lost_records(), 0);
    assert!(store.check().await.unwrap().is_empty());
    store.close().await;

    let seed: u64 = std::env::var("PILLION_DAMAGE_SEED")
        .map_or_else(|_| rand::random(), |seed| seed.parse().unwrap());
    eprintln!("PILLION_DAMAGE_SEED={seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let mut outcomes = HashMap::<_, usize>::new();
    for _ in 0..40 {
        let copy = crash.copy();
        let files = spool_files(copy.path());
        let file = files
            .iter()
            .max_by_key(|file| file.metadata().unwrap().len());
        let mut bytes = fs::read(file.unwrap()).unwrap();
        damage(&mut bytes, &mut random);
        fs::write(file.unwrap(), bytes).unwrap();
        let store = open(copy.path()).await.unwrap();
        let changed = count_changed(&store, &crash).await;
        let lost = store.lost_records();
        assert!(changed == 0 || lost > 0, "{changed} changed silently");
        let problems = store.check().await.unwrap();
        store.close().await;
        // The next process that opens the store finds the same problems.
        let again = SqlStore::open(&StoreOptions::at_file(copy.path().join("pillion.db"))).await;
        assert_eq!(again.unwrap().check().await.unwrap(), problems);
        *outcomes
            .entry((changed > 0, lost > 0, problems.len()))
            .or_default() += 1;
    }
    eprintln!("(changed, lost, problems): {outcomes:?}");
    assert!(
        outcomes.keys().any(|(_, _, problems)| *problems == 1),
        "{outcomes:?}"
    );
}

#[tokio::test]
async fn f4_a_missing_or_empty_database_beside_records_is_rejected_by_name() {
    let crash = Crash::new().await;
    for empty in [true, false] {
        let copy = crash.copy();
        let database = copy.path().join("pillion.db");
        let log = copy.path().join("pillion.db-wal");
        if empty {
            fs::write(&database, "").unwrap();
        } else {
            fs::remove_file(&database).unwrap();
        }
        let with_spool = open(copy.path()).await.unwrap_err();
        assert!(with_spool.is_corrupt(), "{with_spool:?}");
        let message = with_spool.to_string();
        assert!(message.contains("pillion.db.calls-"), "{message}");
        assert_eq!(empty, database.exists());
        // Without its spool files, the store is created again.
        for file in spool_files(copy.path()) {
            fs::remove_file(file).unwrap();
        }
        let with_log = open(copy.path()).await.unwrap_err().to_string();
        assert!(with_log.contains("pillion.db-wal"), "{with_log}");
        fs::remove_file(log).unwrap();
        let store = open(copy.path()).await.unwrap();
        assert_eq!(store.find_setting("a").await.unwrap(), None);
        store.close().await;
    }
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("pillion.db");
    fs::write(&file, "").unwrap();
    let opened = SqlStore::open_existing(&StoreOptions::at_file(&file)).await;
    let error = opened.unwrap_err().to_string();
    assert!(error.contains("pillion.db' is an empty file"), "{error}");
    assert_eq!(fs::metadata(&file).unwrap().len(), 0);
}

#[tokio::test]
async fn f4_a_cut_or_overwritten_database_is_rejected_by_name_or_reported() {
    let crash = Crash::new().await;
    let seed: u64 = rand::random();
    eprintln!("seed {seed}");
    let mut random = StdRng::seed_from_u64(seed);
    for round in 0..12 {
        let copy = crash.copy();
        let database = copy.path().join("pillion.db");
        // Without the write-ahead log, the pages of the database file count.
        let store = open(copy.path()).await.unwrap();
        store.close().await;
        let mut bytes = fs::read(&database).unwrap();
        let pages = bytes.len() / 4_096;
        let page = if round == 0 {
            0
        } else {
            random.random_range(0..pages)
        };
        match round % 2 {
            0 => bytes[page * 4_096..(page + 1) * 4_096].fill(0),
            _ => bytes.truncate(page * 4_096 + 100),
        }
        fs::write(&database, bytes).unwrap();
        let store = match SqlStore::open(&StoreOptions::at_file(&database)).await {
            Ok(store) => store,
            Err(error) => {
                let path = database.display().to_string();
                assert!(error.to_string().contains(&path), "{error}");
                continue;
            }
        };
        let mut changed = false;
        for id in &crash.ended {
            match store.find_call(*id).await {
                Ok(call) => changed |= call.is_none_or(|it| it.status != CallStatus::Success),
                Err(error) => assert!(error.is_corrupt(), "{error:?}"),
            }
        }
        let problems = store.check().await.map_or(1, |problems| problems.len());
        assert!(!changed || problems > 0, "page {page} of {pages}");
    }
}
