use std::collections::VecDeque;
use std::sync::Arc;

use pillion_core::store::{CallId, StoreError, ToolCallRecord};
use sqlx::AssertSqlSafe;
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use super::record;
use crate::clock::StoreClock;
use crate::database::{Database, Value};

/// Batch sizes are powers of two, so that seven prepared statements serve every batch.
const BATCH_SIZE_COUNT: usize = 7;
pub(super) const MAX_BATCH_SIZE: usize = 1 << (BATCH_SIZE_COUNT - 1);

/// Size from which a batch takes no further record, in bytes.
const FULL_BATCH_BYTES: usize = 4 * 1024 * 1024;

/// A queued record, and the channel to its caller.
pub(super) struct QueuedRecord {
    pub(super) call: ToolCallRecord,
    pub(super) done: oneshot::Sender<Result<(), StoreError>>,
    /// The record's share of the memory limit for queued records.
    pub(super) _permit: OwnedSemaphorePermit,
}

impl QueuedRecord {
    /// Sends the outcome to the caller of the record, who may no longer be waiting.
    pub(super) fn finish(self, outcome: Result<(), StoreError>) {
        let _ = self.done.send(outcome);
    }
}

/// The statements that write records.
pub(super) struct Statements {
    /// The SQL of the statements, by the exponent of the batch size.
    sql: [Arc<str>; BATCH_SIZE_COUNT],
    clock: StoreClock,
}

impl Statements {
    pub(super) fn new(database: &Database, clock: StoreClock) -> Self {
        let unfinished = "'pending', 'running'";
        Self {
            sql: std::array::from_fn(|power| insert(database, 1 << power, unfinished).into()),
            clock,
        }
    }

    /// Writes the records in one statement and one commit, and returns how many records were
    /// written. The record of a call that has already ended is not written.
    pub(super) async fn write(
        &self,
        database: &Database,
        calls: impl ExactSizeIterator<Item = &ToolCallRecord> + Clone,
    ) -> Result<usize, StoreError> {
        self.clock.note(calls.clone()).await?;
        let sql = Arc::clone(&self.sql[calls.len().ilog2() as usize]);
        let values: Vec<Value> = calls.flat_map(record::values).collect();
        let written = database.write(AssertSqlSafe(sql), values).await?;
        Ok(usize::try_from(written).unwrap_or(usize::MAX))
    }
}

/// Writes a record of a call that waits for an approval, unless the call runs or has ended.
pub(super) async fn write_waiting(
    database: &Database,
    clock: &StoreClock,
    call: &ToolCallRecord,
) -> Result<(), StoreError> {
    clock.note(std::iter::once(call)).await?;
    let statement = insert(database, 1, "'pending'");
    let values = record::values(call).to_vec();
    match database.write(AssertSqlSafe(statement), values).await? {
        0 => check_written(database, call).await,
        _ => Ok(()),
    }
}

/// Checks that the store contains exactly this record. If not, the store contains another state of
/// the call.
pub(super) async fn check_written(
    database: &Database,
    call: &ToolCallRecord,
) -> Result<(), StoreError> {
    let sql = "SELECT status, completed_at FROM tool_calls WHERE id = $1";
    let found = database.read_one(sql, vec![call.id.into()]).await?;
    let row = found.ok_or_else(|| {
        StoreError::unavailable("the call was removed from the call log in the meantime")
    })?;
    let same = record::status(&row)? == call.status
        && row.optional_timestamp("completed_at")? == call.completed_at;
    if !same {
        return Err(StoreError::conflict(
            "the call log already has a later state of this call",
        ));
    }
    Ok(())
}

/// Returns the statement that writes this number of records. Each record replaces a record of the
/// same call that has one of the statuses in `replaces`.
fn insert(database: &Database, records: usize, replaces: &str) -> String {
    // SQLite treats `$1` as a named parameter, and sqlx searches for each name linearly, which
    // takes a third of the time of a batch. `?` has no name.
    let value: fn(usize) -> String = match database {
        Database::Sqlite { .. } => |_| "?".to_owned(),
        Database::Postgres(_) => |number| format!("${number}"),
    };
    let columns = record::COLUMNS.len();
    let rows: Vec<String> = (0..records)
        .map(|record| {
            let values: Vec<String> = (1..=columns)
                .map(|column| value(record * columns + column))
                .collect();
            format!("({})", values.join(", "))
        })
        .collect();
    let changing = [
        "owner",
        "run_id",
        "status",
        "repaired_arguments",
        "approved_arguments",
        "completed_at",
        "duration_us",
        "result",
        "error",
        "error_code",
        "bytes",
    ];
    let changes: Vec<String> = changing
        .iter()
        .map(|column| format!("{column} = excluded.{column}"))
        .collect();
    format!(
        "INSERT INTO tool_calls ({}) VALUES {} ON CONFLICT (id) DO UPDATE SET {} \
         WHERE tool_calls.status IN ({replaces})",
        record::COLUMNS.join(", "),
        rows.join(", "),
        changes.join(", ")
    )
}

/// Takes the next batch from the queue, in order and without two records of one call.
pub(super) fn take(waiting: &mut VecDeque<QueuedRecord>) -> Vec<QueuedRecord> {
    let mut ids: Vec<CallId> = Vec::with_capacity(MAX_BATCH_SIZE);
    let calls = waiting.iter().map(|job| &job.call).take_while(|call| {
        let is_first = !ids.contains(&call.id);
        ids.push(call.id);
        is_first
    });
    let size = next_batch_size(calls);
    waiting.drain(..size).collect()
}

/// Returns how many of the records one statement can write: a power of two, whose records have not
/// much more than [`FULL_BATCH_BYTES`]; 0 without records. All records must be of different calls.
pub(super) fn next_batch_size<'a>(calls: impl Iterator<Item = &'a ToolCallRecord>) -> usize {
    let mut bytes = 0;
    let fitting = calls.take(MAX_BATCH_SIZE).take_while(|call| {
        let has_room = bytes <= FULL_BATCH_BYTES;
        bytes += record::bytes(call);
        has_room
    });
    match fitting.count() {
        0 => 0,
        fitting => 1 << fitting.ilog2(),
    }
}
