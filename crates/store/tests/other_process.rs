//! Runs this test program as another process, which performs one task with a store.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use pillion_core::store::{CallLog, CallStatus, StoreError, StoreErrorKind, ToolCallRecord};
use pillion_store::{SqlStore, StoreOptions};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{Connection, Executor, SqliteConnection};

use crate::contract::{assert_fails, ended, running};
use crate::{full_disk, lost_file};

const TASK: &str = "PILLION_STORE_TASK";
const FILE: &str = "PILLION_STORE_FILE";

/// Starts this program to perform the task. Returns the process and its output.
pub fn start(task: &str, file: &Path) -> (Child, BufReader<ChildStdout>) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    add_task(&mut command, task, file);
    spawn(&mut command)
}

/// Starts a command that has a task. Returns the process and its output.
pub fn spawn(command: &mut Command) -> (Child, BufReader<ChildStdout>) {
    let mut process = command.spawn().unwrap();
    let output = BufReader::new(process.stdout.take().unwrap());
    (process, output)
}

/// Another process that has locked a database against other writers.
pub struct DatabaseLock {
    process: Child,
    /// Kept open, because printing to a closed pipe would end the other process.
    _output: BufReader<ChildStdout>,
}

impl DatabaseLock {
    pub fn acquire(file: &Path) -> Self {
        let (process, mut output) = start("lock", file);
        assert_eq!(printed_lines(&mut output).next().as_deref(), Some("locked"));
        Self {
            process,
            _output: output,
        }
    }

    pub fn release(mut self) {
        drop(self.process.stdin.take());
        assert!(self.process.wait().unwrap().success());
    }
}

/// Adds the task to a command that runs this program.
pub fn add_task(command: &mut Command, task: &str, file: &Path) {
    command
        .args(["--exact", "other_process::task", "--ignored", "--nocapture"])
        .env(TASK, task)
        .env(FILE, file)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
}

/// Returns the lines that the other process prints with [`print_line`].
pub fn printed_lines(output: impl BufRead) -> impl Iterator<Item = String> {
    let lines = output.lines().map_while(Result::ok);
    // The test harness prints its own output, even on the same line as the task.
    lines.filter_map(|line| Some(line.split_once('>')?.1.to_owned()))
}

pub fn print_line(line: &str) {
    let mut output = std::io::stdout().lock();
    // An error means that the reader has gone and is about to end this process.
    let _ = writeln!(output, ">{line}");
    let _ = output.flush();
}

#[test]
#[ignore = "other tests run this in another process"]
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
                Ok(_) => print_line("opened"),
                Err(error) => print_line(&format!("{:?}", error.kind())),
            },
            "lock" => lock(&file).await,
            "write" => write(&file).await,
            "end on a full disk" => full_disk::end_on_a_full_disk(file.as_ref()).await,
            "mount over" => lost_file::mount_over(file.as_ref()).await,
            "fill" => fill(&file, false).await,
            "fill with local calls" => fill(&file, true).await,
            other => panic!("{other}"),
        }
    });
}

/// Locks the database against other writers until standard input ends.
async fn lock(file: &str) {
    let options = SqliteConnectOptions::new().filename(file);
    let mut connection = SqliteConnection::connect_with(&options).await.unwrap();
    connection.execute("BEGIN IMMEDIATE").await.unwrap();
    print_line("locked");
    std::io::stdin().lines().for_each(drop);
}

/// Records calls from eight concurrent callers without end, and prints the acknowledged records.
/// Four callers use `record_local_call`.
async fn write(file: &str) {
    let store = SqlStore::open(&StoreOptions::at_file(file)).await.unwrap();
    let store = std::sync::Arc::new(store);
    for number in 1..8 {
        tokio::spawn(write_calls(store.clone(), number % 2 == 0));
    }
    write_calls(store, true).await;
}

async fn write_calls(store: std::sync::Arc<SqlStore>, is_local: bool) {
    let record_and_print = async |call: ToolCallRecord| {
        let (id, status) = (call.id, call.status);
        record(&store, call, is_local).await.unwrap();
        print_line(&format!("{id} {}", status.as_str()));
    };
    loop {
        let call = running("roll");
        record_and_print(call.clone()).await;
        record_and_print(ended(&call, CallStatus::Success)).await;
    }
}

async fn record(store: &SqlStore, call: ToolCallRecord, is_local: bool) -> Result<(), StoreError> {
    if is_local {
        store.record_local_call(call).await
    } else {
        store.record_call(call).await
    }
}

/// Records calls until an error, and prints the acknowledged records and the error.
async fn fill(file: &str, is_local: bool) {
    let store = SqlStore::open(&StoreOptions::at_file(file)).await.unwrap();
    for _ in 0..10_000 {
        let mut call = running("roll");
        call.arguments = "x".repeat(50_000);
        let id = call.id;
        let recorded = record(&store, call, is_local).await;
        if recorded.is_err() {
            assert_fails(recorded, StoreErrorKind::Unavailable);
            print_line("full");
            return;
        }
        print_line(&id.to_string());
    }
}
