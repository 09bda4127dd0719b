use pillion_core::store::{CallId, Pruned, Retention, StoreError, Timestamp};

use crate::database::{Database, Value};

/// The number of rows that one statement removes: so other writers wait only a few milliseconds.
const ROWS_PER_STATEMENT: i64 = 500;

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
    if let Some(most) = retention.max_calls {
        let sql = "SELECT id FROM tool_calls ORDER BY id DESC LIMIT 1 OFFSET $1";
        pruned.calls += remove_from(database, sql, most).await?;
    }
    if let Some(most) = retention.max_bytes {
        let sql = "SELECT id FROM (SELECT id, SUM(bytes) OVER (ORDER BY id DESC) AS total \
                   FROM tool_calls) AS sizes WHERE total > $1 ORDER BY id DESC LIMIT 1";
        pruned.calls += remove_from(database, sql, most).await?;
    }
    if pruned.calls > 0 {
        database.shrink().await?;
    }
    Ok(pruned)
}

/// Removes the call that the query finds, and all older calls.
async fn remove_from(database: &Database, find: &str, most: u64) -> Result<u64, StoreError> {
    let most = i64::try_from(most).unwrap_or(i64::MAX);
    let Some(row) = database.read_one(find, vec![most.into()]).await? else {
        return Ok(0);
    };
    let newest = row.call_id("id")?;
    remove(database, "id <=", newest).await
}

async fn remove_before(database: &Database, oldest: CallId) -> Result<u64, StoreError> {
    remove(database, "id <", oldest).await
}

async fn remove(database: &Database, which: &str, id: CallId) -> Result<u64, StoreError> {
    let sql = format!(
        "DELETE FROM tool_calls WHERE id IN (SELECT id FROM tool_calls WHERE {which} $1 \
         AND status NOT IN ('pending', 'running') ORDER BY id LIMIT $2)"
    );
    let mut removed = 0;
    loop {
        let values: Vec<Value> = vec![id.into(), ROWS_PER_STATEMENT.into()];
        let step = database.write(&sql, values).await?;
        removed += step;
        if step < ROWS_PER_STATEMENT.unsigned_abs() {
            return Ok(removed);
        }
        tokio::task::yield_now().await;
    }
}
