use std::collections::VecDeque;
use std::sync::Arc;

use pillion_core::store::{CallId, StoreError, ToolCallRecord};
use sqlx::AssertSqlSafe;
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use super::record;
use crate::Result;
use crate::clock::StoreClock;
use crate::database::{Database, SqlValue};

/// Number of batch sizes. The sizes are the powers of two from 1 to [`MAX_BATCH_SIZE`], so that
/// seven prepared statements suffice for batches of any number of records.
const BATCH_SIZE_COUNT: usize = 7;
pub(super) const MAX_BATCH_SIZE: usize = 1 << (BATCH_SIZE_COUNT - 1);

/// Size at which a batch is full, in bytes: no further record is then added to the batch.
const FULL_BATCH_BYTES: usize = 4 * 1024 * 1024;

/// A queued record, and the channel to its caller.
pub(super) struct QueuedRecord {
    pub(super) call: ToolCallRecord,
    pub(super) outcome_sender: oneshot::Sender<Result<()>>,
    /// The permits for the record's bytes in the queue, whose total size is limited.
    pub(super) _permit: OwnedSemaphorePermit,
}

impl QueuedRecord {
    /// Sends the outcome to the caller of the record. The caller may have stopped waiting.
    pub(super) fn finish(self, outcome: Result<()>) {
        let _ = self.outcome_sender.send(outcome);
    }
}

/// The statements that write records.
pub(super) struct InsertStatements {
    /// The SQL of the statements, by the exponent of the batch size.
    sql: [Arc<str>; BATCH_SIZE_COUNT],
    clock: StoreClock,
}

impl InsertStatements {
    pub(super) fn new(database: &Database, clock: StoreClock) -> Self {
        let unfinished_statuses = "'pending', 'running'";
        Self {
            sql: std::array::from_fn(|exponent| {
                build_insert_sql(database, 1 << exponent, unfinished_statuses).into()
            }),
            clock,
        }
    }

    /// Writes the records in one statement and one commit, and returns how many records were
    /// written. The record of a call that has already ended is not written.
    pub(super) async fn write(
        &self,
        database: &Database,
        calls: impl ExactSizeIterator<Item = &ToolCallRecord> + Clone,
    ) -> Result<usize> {
        self.clock.record_reading_if_due(calls.clone()).await?;
        let sql = Arc::clone(&self.sql[calls.len().ilog2() as usize]);
        let values: Vec<SqlValue> = calls.flat_map(record::to_values).collect();
        let written_rows = database.write(AssertSqlSafe(sql), values).await?;
        Ok(usize::try_from(written_rows).unwrap_or(usize::MAX))
    }
}

/// Writes a record of a call that waits for an approval, unless the call runs or has ended.
pub(super) async fn write_waiting(
    database: &Database,
    clock: &StoreClock,
    call: &ToolCallRecord,
) -> Result<()> {
    clock.record_reading_if_due(std::iter::once(call)).await?;
    let statement = build_insert_sql(database, 1, "'pending'");
    let values = record::to_values(call).to_vec();
    match database.write(AssertSqlSafe(statement), values).await? {
        0 => check_written(database, call).await,
        _ => Ok(()),
    }
}

/// Checks that the store contains the state of the call in `call`, and not a later state.
pub(super) async fn check_written(database: &Database, call: &ToolCallRecord) -> Result<()> {
    let id = call.id;
    let sql = "SELECT status, completed_at FROM tool_calls WHERE id = $1";
    let optional_row = database.read_one(sql, vec![id.into()]).await?;
    let row = optional_row.ok_or_else(|| {
        StoreError::unavailable(format!(
            "call '{id}' was removed from the call log in the meantime"
        ))
    })?;
    let is_same_state = record::read_status(&row)? == call.status
        && row.optional_timestamp("completed_at")? == call.completed_at;
    if !is_same_state {
        return Err(StoreError::conflict(format!(
            "the call log already has a later state of call '{id}'"
        )));
    }
    Ok(())
}

/// Returns the statement that writes `record_count` records. Each record replaces a stored record
/// of the same call that has one of the statuses in `replaced_statuses`.
fn build_insert_sql(database: &Database, record_count: usize, replaced_statuses: &str) -> String {
    // The SQL for SQLite uses the unnamed parameter `?`: SQLite treats `$1` as a named parameter,
    // and sqlx searches for each name linearly, which takes a third of the time of a batch.
    let placeholder: fn(usize) -> String = match database {
        Database::Sqlite { .. } => |_| "?".to_owned(),
        Database::Postgres(_) => |number| format!("${number}"),
    };
    let column_count = record::COLUMNS.len();
    let rows: Vec<String> = (0..record_count)
        .map(|record_index| {
            let values: Vec<String> = (1..=column_count)
                .map(|column| placeholder(record_index * column_count + column))
                .collect();
            format!("({})", values.join(", "))
        })
        .collect();
    let changing_columns = [
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
    let assignments: Vec<String> = changing_columns
        .iter()
        .map(|column| format!("{column} = excluded.{column}"))
        .collect();
    format!(
        "INSERT INTO tool_calls ({}) VALUES {} ON CONFLICT (id) DO UPDATE SET {} \
         WHERE tool_calls.status IN ({replaced_statuses})",
        record::COLUMNS.join(", "),
        rows.join(", "),
        assignments.join(", ")
    )
}

/// Takes the next batch from the waiting records, in order. The batch does not contain two records
/// of the same call.
pub(super) fn take_batch(waiting_records: &mut VecDeque<QueuedRecord>) -> Vec<QueuedRecord> {
    let mut ids: Vec<CallId> = Vec::with_capacity(MAX_BATCH_SIZE);
    let calls = waiting_records
        .iter()
        .map(|record| &record.call)
        .take_while(|call| {
            let is_first_of_call = !ids.contains(&call.id);
            ids.push(call.id);
            is_first_of_call
        });
    let batch_size = choose_batch_size(calls);
    waiting_records.drain(..batch_size).collect()
}

/// Returns how many of the records one statement should write. The number is a power of two, and
/// the total size of the records does not exceed [`FULL_BATCH_BYTES`] by much. Returns 0 if there
/// are no records. All records must be of different calls.
pub(super) fn choose_batch_size<'a>(calls: impl Iterator<Item = &'a ToolCallRecord>) -> usize {
    let mut bytes = 0;
    let fitting_calls = calls.take(MAX_BATCH_SIZE).take_while(|call| {
        let has_room = bytes <= FULL_BATCH_BYTES;
        bytes += record::count_bytes(call);
        has_room
    });
    match fitting_calls.count() {
        0 => 0,
        call_count => 1 << call_count.ilog2(),
    }
}
