use std::time::Duration;

use pillion_core::store::{CallFilter, StoreError, ToolStatistics};
use sqlx::AssertSqlSafe;

use super::query;
use crate::database::{Database, Row, unreadable};

/// Returns the statistics of each tool. Percentiles use the nearest-rank method, computed with row
/// numbers, because SQLite has no percentile function.
pub(super) async fn by_tool(
    database: &Database,
    filter: &CallFilter,
) -> Result<Vec<ToolStatistics>, StoreError> {
    let (conditions, values) = query::conditions(filter);
    let sql = format!(
        "WITH ranked AS (\
           SELECT server, tool, status, duration_us, \
             COUNT(duration_us) OVER (PARTITION BY server, tool) AS timed, \
             ROW_NUMBER() OVER (PARTITION BY server, tool \
               ORDER BY CASE WHEN duration_us IS NULL THEN 1 ELSE 0 END, duration_us) AS place \
           FROM tool_calls WHERE {conditions}) \
         SELECT server, tool, COUNT(*) AS calls, \
           COUNT(CASE WHEN status = 'success' THEN 1 END) AS succeeded, \
           COUNT(CASE WHEN status = 'error' THEN 1 END) AS failed, \
           MAX(CASE WHEN place = (timed * 50 + 99) / 100 THEN duration_us END) AS p50, \
           MAX(CASE WHEN place = (timed * 95 + 99) / 100 THEN duration_us END) AS p95, \
           MAX(CASE WHEN place = (timed * 99 + 99) / 100 THEN duration_us END) AS p99 \
         FROM ranked GROUP BY server, tool"
    );
    let rows = database.read(AssertSqlSafe(sql), values).await?;
    let mut tools = rows.iter().map(read).collect::<Result<Vec<_>, _>>()?;
    tools.sort_by(|a, b| (&a.server, &a.tool).cmp(&(&b.server, &b.tool)));
    Ok(tools)
}

fn read(row: &Row) -> Result<ToolStatistics, StoreError> {
    Ok(ToolStatistics {
        server: row.optional_text("server")?,
        tool: row.text("tool")?,
        calls: row.count("calls")?,
        succeeded: row.count("succeeded")?,
        failed: row.count("failed")?,
        p50: duration(row, "p50")?,
        p95: duration(row, "p95")?,
        p99: duration(row, "p99")?,
    })
}

fn duration(row: &Row, column: &str) -> Result<Option<Duration>, StoreError> {
    let microseconds = row
        .optional_integer(column)?
        .map(u64::try_from)
        .transpose()
        .map_err(|_| unreadable(column))?;
    Ok(microseconds.map(Duration::from_micros))
}
