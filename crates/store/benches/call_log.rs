//! Measures the cost of recording a call: one record before the call runs and one record when the
//! call has ended. Each record is acknowledged once it would survive a crash of the process.
//! `sqlite` commits each record, as the store does for calls that other processes record, too;
//! `file` writes to the spool file beside the database, as the store does for all other calls.
//!
//! `cargo bench -p pillion-store --bench call_log`
//!
//! The time is the time of one call with the given number of concurrent callers, each of which
//! waits for its own records. The inverse of the time is the number of calls per second.

use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput};
use pillion_core::store::{CallLog, CallStatus, ProcessRun, StoreError, Timestamp, ToolCallRecord};
use pillion_store::{SqlStore, StoreOptions};
use tokio::runtime::Builder;

/// Where the store writes a record before it acknowledges the record.
#[derive(Debug, Clone, Copy)]
enum RecordMode {
    Sqlite,
    File,
}

impl RecordMode {
    async fn record(self, log: &dyn CallLog, call: ToolCallRecord) -> Result<(), StoreError> {
        match self {
            Self::Sqlite => log.record_call(call).await,
            Self::File => log.record_local_call(call).await,
        }
    }
}

async fn call(log: &dyn CallLog, mode: RecordMode) -> Result<(), StoreError> {
    let process = ProcessRun {
        owner: "host:/run/pillion.sock".to_owned(),
        run_id: "0190b0a0-0000-7000-8000-000000000000".to_owned(),
    };
    let arguments = r#"{"notation":"4d6kh3","reason":"a sword against a goblin in the dark"}"#;
    let mut record = ToolCallRecord::begin(process, "roll_dice", arguments.to_owned());
    record.server = Some("7d6f0c52-3c4b-4b43-9a59-0d8f3d5d2f10".to_owned());
    record.user = Some("alice".to_owned());
    mode.record(log, record.clone()).await?;
    record.status = CallStatus::Success;
    record.completed_at = Some(Timestamp::now());
    record.duration = Some(Duration::from_micros(310));
    record.result = Some(
        r#"{"content":[{"type":"text","text":"Rolled 4d6kh3: [6, 4, 3, 2] = **13**"}]}"#.to_owned(),
    );
    mode.record(log, record).await
}

/// Measures how long `number` calls of `callers` concurrent callers take.
async fn calls(
    log: &Arc<SqlStore>,
    mode: RecordMode,
    number: u64,
    callers: u64,
) -> Result<Duration, StoreError> {
    let start = Instant::now();
    let tasks: Vec<_> = (0..callers)
        .map(|caller| {
            let log = Arc::clone(log);
            let share = number / callers + u64::from(caller < number % callers);
            tokio::spawn(async move {
                for _ in 0..share {
                    call(&*log, mode).await?;
                }
                Ok(())
            })
        })
        .collect();
    for task in tasks {
        let ended = task.await;
        ended.unwrap_or_else(|_| Err(StoreError::unavailable("a caller panicked")))?;
    }
    Ok(start.elapsed())
}

fn main() -> Result<(), Box<dyn Error>> {
    let runtime = Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let mut criterion = Criterion::default().configure_from_args();
    let mut group = criterion.benchmark_group("call_log");
    group.throughput(Throughput::Elements(1));
    let modes = [("sqlite", RecordMode::Sqlite), ("file", RecordMode::File)];
    for ((name, mode), callers) in modes.into_iter().flat_map(|mode| [(mode, 1), (mode, 32)]) {
        let directory = tempfile::tempdir()?;
        let options = StoreOptions::at_file(directory.path().join("pillion.db"));
        let log = Arc::new(runtime.block_on(SqlStore::open(&options))?);
        group.bench_function(format!("{name}/{callers}"), |bencher| {
            bencher.iter_custom(|number| {
                let took = runtime.block_on(calls(&log, mode, number, callers));
                // An error results in a time of zero, which criterion reports.
                took.unwrap_or_default()
            });
        });
        runtime.block_on(log.close());
    }
    group.finish();
    criterion.final_summary();
    Ok(())
}
