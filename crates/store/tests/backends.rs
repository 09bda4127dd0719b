//! Runs the contract on memory, a file and a real Postgres, and tests the behavior that is specific
//! to files and servers.

use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::time::Duration;

use pillion_core::store::{
    CallLog, CallStatus, RecordOwner, ServerStore, SettingsStore, StoreErrorKind,
};
use pillion_store::{Durability, SqlStore, StoreLocation, StoreOptions};
use pillion_testkit::{Postgres, PostgresRelay};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::contract::{CASES, assert_fails, ended, running, server, servers_of_calls};

fn run<F: Future>(future: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    runtime.unwrap().block_on(future)
}

/// Runs each case of the contract on its own store.
fn contract(mut options: impl FnMut(&str) -> StoreOptions) {
    run(async {
        for (name, case) in CASES {
            eprintln!("{name}");
            let store = Arc::new(SqlStore::open(&options(name)).await.unwrap());
            case(store.clone()).await;
            store.close().await;
        }
    });
}

#[test]
fn the_contract_in_memory() {
    contract(|_| StoreOptions::new(StoreLocation::Memory));
}

#[test]
fn the_contract_in_a_file() {
    let directory = tempfile::tempdir().unwrap();
    contract(|name| StoreOptions::at_file(directory.path().join(name.replace("::", "."))));
}

#[test]
fn the_contract_in_a_file_that_survives_a_loss_of_power() {
    let directory = tempfile::tempdir().unwrap();
    let mut number = 0;
    contract(|_| {
        number += 1;
        let mut options = StoreOptions::at_file(directory.path().join(number.to_string()));
        options.durability = Durability::PowerLoss;
        options
    });
}

fn at_postgres(url: &str) -> StoreOptions {
    StoreOptions::new(url.parse().unwrap())
}

#[test]
fn the_contract_in_postgres() {
    let Some(postgres) = Postgres::start() else {
        return;
    };
    let mut number = 0;
    contract(|_| {
        number += 1;
        at_postgres(&postgres.database(&format!("contract{number}")))
    });
    let url = postgres.database("many");
    run(async {
        let store = SqlStore::open(&at_postgres(&url)).await.unwrap();
        assert!(store.check().await.unwrap().is_empty());
        store.close().await;
    });
    run(assert_created_by_several_processes(at_postgres(&url)));
    run(assert_persistent(at_postgres(&url)));
}

#[test]
fn a_store_file_is_durable_and_has_mode_0600() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pillion.db");
    run(async {
        assert_created_by_several_processes(StoreOptions::at_file(&path)).await;
        assert_persistent(StoreOptions::at_file(&path)).await;
        let store = SqlStore::open(&StoreOptions::at_file(&path)).await.unwrap();
        store.set_setting("a", "1").await.unwrap();
        let files = std::fs::read_dir(directory.path()).unwrap();
        let modes: Vec<u32> = files
            .map(|file| file.unwrap().metadata().unwrap().permissions().mode() & 0o777)
            .collect();
        // The database file, its write-ahead log and the log's index, two spool files, and the
        // recovery lock if it was used.
        assert!(modes.len() >= 5, "{modes:?}");
        assert!(modes.iter().all(|mode| *mode == 0o600), "{modes:?}");
    });
}

#[tokio::test]
async fn a_file_is_checked_and_copied_while_calls_continue() {
    let directory = tempfile::tempdir().unwrap();
    let (file, copy) = (
        directory.path().join("a'b.db"),
        directory.path().join("c'd.db"),
    );
    let store = SqlStore::open(&StoreOptions::at_file(&file)).await.unwrap();
    let call = running("roll");
    store.record_call(call.clone()).await.unwrap();
    assert!(store.check().await.unwrap().is_empty());
    let (copied, recorded) = tokio::join!(store.backup(&copy), store.record_call(running("b")));
    copied.unwrap();
    recorded.unwrap();
    let mode = std::fs::metadata(&copy).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o600);
    assert_fails(store.backup(&copy).await, StoreErrorKind::Conflict);
    let error = store.backup(directory.path()).await.unwrap_err();
    assert!(error.to_string().contains("is a directory"), "{error}");
    let nowhere = directory.path().join("none/copy.db");
    assert_fails(store.backup(&nowhere).await, StoreErrorKind::Unavailable);

    let copy = SqlStore::open(&StoreOptions::at_file(&copy)).await.unwrap();
    assert_eq!(copy.find_call(call.id).await.unwrap(), Some(call));
    assert!(copy.check().await.unwrap().is_empty());
    let options = StoreOptions::new(StoreLocation::Memory);
    let in_memory = SqlStore::open(&options).await.unwrap();
    let copied = in_memory.backup(directory.path().join("memory.db")).await;
    assert_fails(copied, StoreErrorKind::Invalid);
}

async fn assert_created_by_several_processes(options: StoreOptions) {
    let tasks: Vec<_> = (0..4)
        .map(|number| {
            let mut options = options.clone();
            options.busy_timeout = Duration::from_secs(60);
            tokio::spawn(async move {
                let store = SqlStore::open(&options).await.unwrap();
                let key = format!("begun {number}");
                store.set_setting(&key, "1").await.unwrap();
                store.close().await;
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
}

async fn assert_persistent(options: StoreOptions) {
    let call = ended(&running("roll"), CallStatus::Success);
    let store = SqlStore::open(&options).await.unwrap();
    store.record_call(call.clone()).await.unwrap();
    store.close().await;
    let recorded = store.record_call(running("roll")).await;
    assert_fails(recorded, StoreErrorKind::Unavailable);
    assert_fails(store.servers().await, StoreErrorKind::Unavailable);

    let again = SqlStore::open(&options).await.unwrap();
    assert_eq!(again.find_call(call.id).await.unwrap(), Some(call));
    assert_eq!(again.settings().await.unwrap().len(), 4);
    again.close().await;
}

#[test]
fn a_stopped_postgres_is_unavailable_until_it_restarts() {
    let Some(mut postgres) = Postgres::start() else {
        return;
    };
    let mut options = at_postgres(&postgres.database("p"));
    options.busy_timeout = Duration::from_secs(5);
    run(async {
        let store = SqlStore::open(&options).await.unwrap();
        let mut recorded = Vec::new();
        for _ in 0..10 {
            let call = running("roll");
            store.record_call(call.clone()).await.unwrap();
            recorded.push(call);
        }
        postgres.crash();
        let (first, second, third) = tokio::join!(
            store.record_call(running("a")),
            store.record_call(running("b")),
            store.set_setting("c", "1")
        );
        for lost in [first, second, third] {
            assert_fails(lost, StoreErrorKind::Unavailable);
        }
        let opened = SqlStore::open(&options).await;
        assert_fails(opened, StoreErrorKind::Unavailable);
        postgres.start_again();
        for call in recorded {
            assert_eq!(store.find_call(call.id).await.unwrap(), Some(call));
        }
        store.record_call(running("again")).await.unwrap();
    });
}

#[test]
fn a_silent_postgres_is_unavailable_until_it_responds_again() {
    let Some(postgres) = Postgres::start() else {
        return;
    };
    drop(postgres.database("silent"));
    let deadline = Duration::from_secs(60);
    run(async {
        let relay = PostgresRelay::to(&postgres);
        let mut options = at_postgres(&relay.url("silent"));
        options.busy_timeout = Duration::from_secs(2);
        options.statement_timeout = Duration::from_secs(2);
        let store = Arc::new(SqlStore::open(&options).await.unwrap());
        let recorded = running("roll");
        store.record_call(recorded.clone()).await.unwrap();
        // After these requests, every connection has been used.
        send_many_requests(&store).await;
        relay.go_silent();
        let requests = async {
            tokio::join!(
                async { store.servers().await.map(drop) },
                store.record_call(running("a")),
                store.record_local_call(running("b")),
                store.set_setting("c", "1"),
                store.remove_server("d", RecordOwner::StoredServer),
                async { store.find_call(recorded.id).await.map(drop) },
            )
        };
        let lost = timeout(deadline, requests).await.expect("an end");
        for outcome in <[_; 6]>::from(lost) {
            assert_fails(outcome, StoreErrorKind::Unavailable);
        }

        relay.resume();
        let recovered = async {
            while store.record_call(running("again")).await.is_err() {}
            send_many_requests(&store).await;
        };
        timeout(deadline, recovered).await.expect("a recovery");
        assert_eq!(store.find_call(recorded.id).await.unwrap(), Some(recorded));

        relay.go_silent();
        timeout(deadline, store.close()).await.expect("an end");
    });
}

#[tokio::test]
async fn f2_pending_calls_get_the_new_server_name_in_every_process() {
    let directory = tempfile::tempdir().unwrap();
    let options = StoreOptions::at_file(directory.path().join("pillion.db"));
    let changing = SqlStore::open(&options).await.unwrap();
    let calling = SqlStore::open(&options).await.unwrap();
    let mut server = server("1", "dice");
    changing.insert_server(&server).await.unwrap();
    for store in [&changing, &calling] {
        let mut call = running("roll");
        call.server = Some("dice".to_owned());
        store.record_local_call(call).await.unwrap();
    }
    server.name = "cards".to_owned();
    let renamed = changing
        .update_server(&server, RecordOwner::StoredServer)
        .await;
    renamed.unwrap();
    for store in [&calling, &changing] {
        assert_eq!(servers_of_calls(store).await, ["cards", "cards"]);
    }
}

#[test]
fn postgres_connections_use_the_runtime_that_opened_the_store() {
    let Some(postgres) = Postgres::start() else {
        return;
    };
    let url = postgres.database("runtimes");
    let mut options = at_postgres(&url);
    options.busy_timeout = Duration::from_secs(10);
    run(async {
        let store = Arc::new(SqlStore::open(&options).await.unwrap());
        let shared = Arc::clone(&store);
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build();
            runtime.unwrap().block_on(send_many_requests(&shared));
        })
        .join()
        .unwrap();
        // The thread has ended. The connections that it left in the pool serve other threads.
        send_many_requests(&store).await;
        store.close().await;
    });
}

/// Sends more concurrent requests than there are connections.
async fn send_many_requests(store: &Arc<SqlStore>) {
    let mut requests = JoinSet::new();
    for _ in 0..32 {
        let store = Arc::clone(store);
        requests.spawn(async move { store.servers().await.unwrap() });
    }
    requests.join_all().await;
}
