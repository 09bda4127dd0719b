use std::sync::Arc;
use std::time::Duration;

use pillion_core::store::{CallId, Pruned, Retention, StoreError, Timestamp};
use sqlx::AssertSqlSafe;

use crate::clock::ClockHistory;
use crate::database::{Database, Value};
use crate::sql_store::SqlStore;

/// The number of rows that one statement removes. The number is small, so that other writers wait
/// only a few milliseconds.
const ROWS_PER_STATEMENT: i64 = 500;

/// Notes that calls with ids up to `$1` are removed. A reader that does not find a call can then
/// distinguish a removed call from a call that was never recorded.
const NOTE_REMOVAL: &str = "INSERT INTO removed_calls (only_row, newest) VALUES (1, $1) \
     ON CONFLICT (only_row) DO UPDATE SET newest = excluded.newest \
     WHERE removed_calls.newest < excluded.newest";

/// Maximum time by which the time of a record may be ahead of the readings of the clock.
const MAX_UNREAD_TIME: Duration = Duration::from_secs(3_600);

pub(super) async fn prune(
    database: &Database,
    retention: &Retention,
    now: Timestamp,
) -> Result<Pruned, StoreError> {
    let mut pruned = Pruned::default();
    if let Some(age) = retention.max_age {
        let oldest = CallId::min_at(now.minus(age));
        pruned.calls += remove_before(database, oldest).await?;
    }
    if let Some(max) = retention.max_calls {
        let sql = "SELECT id FROM tool_calls ORDER BY id DESC LIMIT 1 OFFSET $1";
        pruned.calls += remove_from(database, sql, max).await?;
    }
    if let Some(max) = retention.max_bytes {
        let sql = "SELECT id FROM (SELECT id, SUM(bytes) OVER (ORDER BY id DESC) AS total \
                   FROM tool_calls) AS sizes WHERE total > $1 ORDER BY id DESC LIMIT 1";
        pruned.calls += remove_from(database, sql, max).await?;
    }
    if pruned.calls > 0 {
        database.shrink().await?;
    }
    Ok(pruned)
}

impl SqlStore {
    /// Removes the calls that are older than `max_age` by the running time of the store, whatever
    /// the system clock shows now or showed when the calls were recorded. Returns the number of
    /// removed calls.
    ///
    /// # Errors
    /// `unavailable` or `corrupt`. Calls that were removed before the error stay removed.
    pub async fn remove_expired_calls(
        &self,
        max_age: Duration,
        clock: &ClockHistory,
    ) -> Result<u64, StoreError> {
        let (Some(before), Some(range)) = (clock.before(max_age), clock.during(max_age)) else {
            return Ok(0);
        };
        self.catch_up_if_possible().await;
        let database = &self.database;
        let mut removed = remove_before(database, CallId::min_at(before)).await?;
        // Calls with a later id were recorded while the system clock was ahead.
        let latest = CallId::min_at(range.latest.plus(MAX_UNREAD_TIME));
        removed += remove_after(database, latest).await?;
        if removed > 0 {
            database.shrink().await?;
        }
        Ok(removed)
    }
}

/// Removes the call that the query finds, and all older calls.
async fn remove_from(database: &Database, find: &'static str, max: u64) -> Result<u64, StoreError> {
    let max = i64::try_from(max).unwrap_or(i64::MAX);
    let Some(row) = database.read_one(find, vec![max.into()]).await? else {
        return Ok(0);
    };
    let newest = row.call_id("id")?;
    remove(database, "id <= $1", vec![newest.into()], newest).await
}

async fn remove_before(database: &Database, oldest: CallId) -> Result<u64, StoreError> {
    remove(database, "id < $1", vec![oldest.into()], oldest).await
}

async fn remove_after(database: &Database, latest: CallId) -> Result<u64, StoreError> {
    let find = "SELECT id FROM tool_calls WHERE id > $1 ORDER BY id DESC LIMIT 1";
    let Some(row) = database.read_one(find, vec![latest.into()]).await? else {
        return Ok(0);
    };
    let newest = row.call_id("id")?;
    let values = vec![latest.into(), newest.into()];
    remove(database, "id > $1 AND id <= $2", values, newest).await
}

/// Removes the finished calls that match `condition`, none of which has a greater id than `newest`.
async fn remove(
    database: &Database,
    condition: &str,
    values: Vec<Value>,
    newest: CallId,
) -> Result<u64, StoreError> {
    let next = values.len() + 1;
    let find: Arc<str> = format!(
        "SELECT id FROM tool_calls WHERE {condition} AND status NOT IN ('pending', 'running') \
         ORDER BY id LIMIT ${next}"
    )
    .into();
    let sql: Arc<str> = format!("DELETE FROM tool_calls WHERE id IN ({find})").into();
    let with_limit = |limit: i64| {
        let mut values = values.clone();
        values.push(limit.into());
        values
    };
    let first = database.read_one(AssertSqlSafe(find), with_limit(1));
    if first.await?.is_none() {
        return Ok(0);
    }
    // The note is written first, so that a process that dies before the removal has not removed a
    // call without a note.
    database.write(NOTE_REMOVAL, vec![newest.into()]).await?;
    let mut removed = 0;
    loop {
        let step = database
            .write(
                AssertSqlSafe(Arc::clone(&sql)),
                with_limit(ROWS_PER_STATEMENT),
            )
            .await?;
        removed += step;
        if step < ROWS_PER_STATEMENT.unsigned_abs() {
            return Ok(removed);
        }
        tokio::task::yield_now().await;
    }
}
