//! Runs the contract on memory, a file and a real Postgres, and tests what is specific to files and
//! servers.

use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::time::Duration;

use pillion_core::store::{
    CallLog, CallStatus, RecordOwner, ServerRecord, ServerStore, SettingsStore, StoreErrorKind,
};
use pillion_store::{Durability, SqlStore, StoreLocation, StoreOptions};
use pillion_testkit::{Postgres, PostgresRelay};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::contract::{CASES, at, ended, running};

fn run<F: Future>(future: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    runtime.unwrap().block_on(future)
}

/// Runs each case on its own store.
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
    run(several_processes_create_the_store_at_once(at_postgres(
        &url,
    )));
    run(keeps_what_it_has(at_postgres(&url)));
}

#[test]
fn a_store_file_is_durable_and_has_mode_0600() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pillion.db");
    run(async {
        several_processes_create_the_store_at_once(StoreOptions::at_file(&path)).await;
        keeps_what_it_has(StoreOptions::at_file(&path)).await;
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
    let refused = store.backup(&copy).await.unwrap_err();
    assert!(refused.is_conflict(), "{refused:?}");
    let refused = store.backup(directory.path()).await.unwrap_err();
    assert!(refused.to_string().contains("is a directory"), "{refused}");
    let nowhere = directory.path().join("none/copy.db");
    let refused = store.backup(&nowhere).await.unwrap_err();
    assert!(refused.is_unavailable(), "{refused:?}");

    let copy = SqlStore::open(&StoreOptions::at_file(&copy)).await.unwrap();
    assert_eq!(copy.call(call.id).await.unwrap(), Some(call));
    assert!(copy.check().await.unwrap().is_empty());
    let memory = StoreOptions::new(StoreLocation::Memory);
    let memory = SqlStore::open(&memory).await.unwrap();
    let refused = memory
        .backup(directory.path().join("memory.db"))
        .await
        .unwrap_err();
    assert_eq!(refused.kind(), StoreErrorKind::Invalid, "{refused:?}");
}

async fn several_processes_create_the_store_at_once(options: StoreOptions) {
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

async fn keeps_what_it_has(options: StoreOptions) {
    let call = ended(&running("roll"), CallStatus::Success);
    let store = SqlStore::open(&options).await.unwrap();
    store.record_call(call.clone()).await.unwrap();
    store.close().await;
    let refused = store.record_call(running("roll")).await.unwrap_err();
    assert!(refused.is_unavailable(), "{refused:?}");
    let refused = store.servers().await.unwrap_err();
    assert!(refused.is_unavailable(), "{refused:?}");

    let again = SqlStore::open(&options).await.unwrap();
    assert_eq!(again.call(call.id).await.unwrap(), Some(call));
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
        let mut kept = Vec::new();
        for _ in 0..10 {
            let call = running("roll");
            store.record_call(call.clone()).await.unwrap();
            kept.push(call);
        }
        postgres.crash();
        let lost = tokio::join!(
            store.record_call(running("a")),
            store.record_call(running("b")),
            store.set_setting("c", "1")
        );
        assert!(lost.0.unwrap_err().is_unavailable());
        assert!(lost.1.unwrap_err().is_unavailable());
        assert!(lost.2.unwrap_err().is_unavailable());
        let refused = SqlStore::open(&options).await.unwrap_err();
        assert!(refused.is_unavailable(), "{refused:?}");
        postgres.start_again();
        for call in kept {
            assert_eq!(store.call(call.id).await.unwrap(), Some(call));
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
    let in_the_end = Duration::from_secs(60);
    run(async {
        let relay = PostgresRelay::to(&postgres);
        let mut options = at_postgres(&relay.url("silent"));
        options.busy_timeout = Duration::from_secs(2);
        options.statement_timeout = Duration::from_secs(2);
        let store = Arc::new(SqlStore::open(&options).await.unwrap());
        let kept = running("roll");
        store.record_call(kept.clone()).await.unwrap();
        // Every connection has been used.
        ask_often(&store).await;
        relay.go_silent();
        let lost = async {
            tokio::join!(
                store.servers(),
                store.record_call(running("a")),
                store.record_local_call(running("b")),
                store.set_setting("c", "1"),
                store.remove_server("d", RecordOwner::Own),
                store.call(kept.id),
            )
        };
        let lost = timeout(in_the_end, lost).await.expect("an end");
        for error in [
            lost.0.unwrap_err(),
            lost.1.unwrap_err(),
            lost.2.unwrap_err(),
            lost.3.unwrap_err(),
            lost.4.unwrap_err(),
            lost.5.unwrap_err(),
        ] {
            assert!(error.is_unavailable(), "{error:?}");
        }

        relay.resume();
        let recovered = async {
            while store.record_call(running("again")).await.is_err() {}
            ask_often(&store).await;
        };
        timeout(in_the_end, recovered).await.expect("an answer");
        assert_eq!(store.call(kept.id).await.unwrap(), Some(kept));

        relay.go_silent();
        timeout(in_the_end, store.close()).await.expect("an end");
    });
}

#[tokio::test]
async fn f2_pending_calls_get_the_new_server_name_in_every_process() {
    let directory = tempfile::tempdir().unwrap();
    let options = StoreOptions::at_file(directory.path().join("pillion.db"));
    let changing = SqlStore::open(&options).await.unwrap();
    let calling = SqlStore::open(&options).await.unwrap();
    let mut server = ServerRecord {
        id: "1".to_owned(),
        name: "dice".to_owned(),
        configuration: "{}".to_owned(),
        enabled: true,
        last_connected_at: None,
        created_at: at(1),
        updated_at: at(1),
    };
    changing.insert_server(&server).await.unwrap();
    for store in [&changing, &calling] {
        let mut call = running("roll");
        call.server = Some("dice".to_owned());
        store.record_local_call(call).await.unwrap();
    }
    server.name = "cards".to_owned();
    let renamed = changing.update_server(&server, RecordOwner::Own).await;
    renamed.unwrap();
    for store in [&calling, &changing] {
        let calls = store.calls(&Default::default(), &Default::default()).await;
        let calls = calls.unwrap().items.into_iter();
        let servers: Vec<_> = calls.filter_map(|call| call.server).collect();
        assert_eq!(servers, ["cards", "cards"]);
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
        let asked = Arc::clone(&store);
        std::thread::spawn(move || {
            let lane = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            lane.block_on(ask_often(&asked));
        })
        .join()
        .unwrap();
        // The thread has ended. Connections that it left in the pool serve other threads.
        ask_often(&store).await;
        store.close().await;
    });
}

/// Sends more concurrent requests than there are connections.
async fn ask_often(store: &Arc<SqlStore>) {
    let mut asking = JoinSet::new();
    for _ in 0..32 {
        let store = Arc::clone(store);
        asking.spawn(async move { store.servers().await });
    }
    while let Some(asked) = asking.join_next().await {
        asked.unwrap().unwrap();
    }
}
