//! Runs this test program as another process that performs one task with a store.

use std::io::{BufRead, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use pillion_core::store::{CallLog, CallStatus, StoreErrorKind, ToolCallRecord};
use pillion_store::{SqlStore, StoreOptions};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{Connection, Executor, SqliteConnection};

use crate::contract::{ended, running};
use crate::{full_disk, lost_file};

const TASK: &str = "PILLION_STORE_TASK";
const FILE: &str = "PILLION_STORE_FILE";

/// Returns a command that performs the task with this program.
pub fn command(program: &Path, task: &str, file: &Path) -> Command {
    let mut command = Command::new(program);
    prepare(&mut command, task, file);
    command
}

/// Adds the task to a command that runs this program.
pub fn prepare(command: &mut Command, task: &str, file: &Path) {
    command
        .args(["--exact", "other_process::task", "--ignored", "--nocapture"])
        .env(TASK, task)
        .env(FILE, file)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
}

/// Returns the lines that the other process prints with `say`.
pub fn says(output: impl BufRead) -> impl Iterator<Item = String> {
    let lines = output.lines().map_while(Result::ok);
    // The test harness prints its own output, even on the same line.
    lines.filter_map(|line| Some(line.split_once('>')?.1.to_owned()))
}

pub fn say(what: &str) {
    let mut output = std::io::stdout().lock();
    // An error means that the reader has gone and is about to end this process.
    let _ = writeln!(output, ">{what}");
    let _ = output.flush();
}

#[test]
#[ignore = "what other tests run in another process"]
fn task() {
    let Ok(task) = std::env::var(TASK) else {
        return;
    };
    let file = std::env::var(FILE).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    runtime.unwrap().block_on(async {
        match task.as_str() {
            "open" => match SqlStore::open(&StoreOptions::at_file(file)).await {
                Ok(_) => say("opened"),
                Err(error) => say(&format!("{:?}", error.kind())),
            },
            "lock" => lock(&file).await,
            "write" => write(&file).await,
            "end on a full disk" => full_disk::end_on_a_full_disk(file.as_ref()).await,
            "mount over" => lost_file::mount_over(file.as_ref()).await,
            "fill" => fill(&file, false).await,
            "fill with own" => fill(&file, true).await,
            other => panic!("{other}"),
        }
    });
}

/// Locks the database against other writers until standard input ends.
async fn lock(file: &str) {
    let options = SqliteConnectOptions::new().filename(file);
    let mut connection = SqliteConnection::connect_with(&options).await.unwrap();
    connection.execute("BEGIN IMMEDIATE").await.unwrap();
    say("locked");
    std::io::stdin().lines().for_each(drop);
}

/// Records calls from eight concurrent callers without end, and prints the acknowledged records.
/// Four callers use `record_local_call`.
async fn write(file: &str) {
    let store = SqlStore::open(&StoreOptions::at_file(file)).await.unwrap();
    let store = std::sync::Arc::new(store);
    for number in 1..8 {
        tokio::spawn(write_on(store.clone(), number % 2 == 0));
    }
    write_on(store, true).await;
}

async fn write_on(store: std::sync::Arc<SqlStore>, are_own: bool) {
    let record = async |call: ToolCallRecord| {
        let (id, status) = (call.id, call.status);
        match are_own {
            true => store.record_local_call(call).await.unwrap(),
            false => store.record_call(call).await.unwrap(),
        }
        say(&format!("{id} {}", status.as_str()));
    };
    loop {
        let call = running("roll");
        record(call.clone()).await;
        record(ended(&call, CallStatus::Success)).await;
    }
}

/// Records calls until an error, and prints the acknowledged records and the error.
async fn fill(file: &str, are_own: bool) {
    let store = SqlStore::open(&StoreOptions::at_file(file)).await.unwrap();
    for _ in 0..10_000 {
        let mut call = running("roll");
        call.arguments = "x".repeat(50_000);
        let id = call.id;
        let recorded = match are_own {
            true => store.record_local_call(call).await,
            false => store.record_call(call).await,
        };
        match recorded {
            Ok(()) => say(&id.to_string()),
            Err(error) => {
                assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error:?}");
                say("full");
                return;
            }
        }
    }
}
