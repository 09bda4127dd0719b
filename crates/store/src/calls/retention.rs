use std::sync::Arc;
use std::time::Duration;

use pillion_core::store::{CallId, PruneOutcome, Retention, Timestamp};
use sqlx::AssertSqlSafe;

use crate::Result;
use crate::clock::ClockHistory;
use crate::database::{Database, SqlValue};
use crate::sql_store::SqlStore;

/// Maximum number of rows that one statement removes. The number is small, so that other writers
/// wait only a few milliseconds.
const ROWS_PER_STATEMENT: i64 = 500;

/// The SQL statement that records that calls with IDs up to `$1` may be removed. A reader that does
/// not find a call can then distinguish a removed call from a call that was never recorded.
const NOTE_REMOVAL_SQL: &str = "INSERT INTO removed_calls (only_row, newest) VALUES (1, $1) \
     ON CONFLICT (only_row) DO UPDATE SET newest = excluded.newest \
     WHERE removed_calls.newest < excluded.newest";

/// Maximum time by which a record's timestamp may be ahead of the latest stored system time.
const MAX_RECORD_LEAD: Duration = Duration::from_secs(3_600);

pub(super) async fn prune(
    database: &Database,
    retention: &Retention,
    now: Timestamp,
) -> Result<PruneOutcome> {
    let mut totals = PruneOutcome::default();
    if let Some(max_age) = retention.max_age {
        let oldest_id = CallId::min_at(now.minus(max_age));
        totals.calls += remove_earlier_calls(database, oldest_id).await?;
    }
    if let Some(max_calls) = retention.max_calls {
        let sql = "SELECT id FROM tool_calls ORDER BY id DESC LIMIT 1 OFFSET $1";
        totals.calls += remove_found_calls(database, sql, max_calls).await?;
    }
    if let Some(max_bytes) = retention.max_bytes {
        let sql = "SELECT id FROM (SELECT id, SUM(bytes) OVER (ORDER BY id DESC) AS total \
                   FROM tool_calls) AS sizes WHERE total > $1 ORDER BY id DESC LIMIT 1";
        totals.calls += remove_found_calls(database, sql, max_bytes).await?;
    }
    if totals.calls > 0 {
        database.shrink().await?;
    }
    Ok(totals)
}

impl SqlStore {
    /// Removes the calls that are older than `age`. The age is determined by the uptime of the
    /// store ([`ClockHistory`](crate::ClockHistory)), so an error of the system clock, now or
    /// when the calls were recorded, has no effect. Returns the number of removed calls.
    ///
    /// # Errors
    /// `unavailable` or `corrupt`. Calls that were removed before the error stay removed.
    pub async fn remove_expired_calls(&self, age: Duration, clock: &ClockHistory) -> Result<u64> {
        let (Some(cutoff), Some(range)) = (clock.cutoff_for_age(age), clock.readings_during(age))
        else {
            return Ok(0);
        };
        self.catch_up_if_possible().await;
        let database = &self.database;
        let mut removed_call_count = remove_earlier_calls(database, CallId::min_at(cutoff)).await?;
        // Calls whose IDs have a time after all readings of the period are removed, too, because
        // they were recorded before the period, while the system clock was ahead.
        let latest_id = CallId::min_at(range.latest_reading.plus(MAX_RECORD_LEAD));
        removed_call_count += remove_later_calls(database, latest_id).await?;
        if removed_call_count > 0 {
            database.shrink().await?;
        }
        Ok(removed_call_count)
    }
}

/// Removes the call that the query finds, and all older calls.
async fn remove_found_calls(database: &Database, sql: &'static str, limit: u64) -> Result<u64> {
    let limit_value = i64::try_from(limit).unwrap_or(i64::MAX);
    let Some(row) = database.read_one(sql, vec![limit_value.into()]).await? else {
        return Ok(0);
    };
    let newest_id = row.call_id("id")?;
    remove(database, "id <= $1", vec![newest_id.into()], newest_id).await
}

async fn remove_earlier_calls(database: &Database, oldest_id: CallId) -> Result<u64> {
    remove(database, "id < $1", vec![oldest_id.into()], oldest_id).await
}

async fn remove_later_calls(database: &Database, latest_id: CallId) -> Result<u64> {
    let find_sql = "SELECT id FROM tool_calls WHERE id > $1 ORDER BY id DESC LIMIT 1";
    let Some(row) = database.read_one(find_sql, vec![latest_id.into()]).await? else {
        return Ok(0);
    };
    let newest_id = row.call_id("id")?;
    let values = vec![latest_id.into(), newest_id.into()];
    remove(database, "id > $1 AND id <= $2", values, newest_id).await
}

/// Removes the finished calls that match `condition`. The caller ensures that no matching call has
/// an ID greater than `newest_id`.
async fn remove(
    database: &Database,
    condition: &str,
    values: Vec<SqlValue>,
    newest_id: CallId,
) -> Result<u64> {
    let limit_number = values.len() + 1;
    let find_sql: Arc<str> = format!(
        "SELECT id FROM tool_calls WHERE {condition} AND status NOT IN ('pending', 'running') \
         ORDER BY id LIMIT ${limit_number}"
    )
    .into();
    let sql: Arc<str> = format!("DELETE FROM tool_calls WHERE id IN ({find_sql})").into();
    let values_with_limit = |limit: i64| {
        let mut limited_values = values.clone();
        limited_values.push(limit.into());
        limited_values
    };
    let first_row = database
        .read_one(AssertSqlSafe(find_sql), values_with_limit(1))
        .await?;
    if first_row.is_none() {
        return Ok(0);
    }
    // The removal is recorded first, so that no call is removed without being recorded as removed,
    // even if the process dies in between.
    database
        .write(NOTE_REMOVAL_SQL, vec![newest_id.into()])
        .await?;
    let mut removed_call_count = 0;
    loop {
        let batch_calls = database
            .write(
                AssertSqlSafe(Arc::clone(&sql)),
                values_with_limit(ROWS_PER_STATEMENT),
            )
            .await?;
        removed_call_count += batch_calls;
        if batch_calls < ROWS_PER_STATEMENT.unsigned_abs() {
            return Ok(removed_call_count);
        }
        tokio::task::yield_now().await;
    }
}
