use std::time::Duration;

use pillion_core::store::{
    CallCounts, CallFilter, CallGrouping, CallId, CallStatistics, Timestamp,
};
use sqlx::AssertSqlSafe;

use super::query;
use crate::Result;
use crate::database::{Database, Row, unreadable_column};

/// Returns the statistics of each group of calls. Computes percentiles by the nearest-rank method,
/// from row numbers, because SQLite has no percentile function.
pub(super) async fn read_groups(
    database: &Database,
    filter: &CallFilter,
    grouping: CallGrouping,
) -> Result<Vec<CallStatistics>> {
    let (conditions, values) = query::build_filter_conditions(filter);
    let columns = match grouping {
        CallGrouping::Tool => "server, tool",
        CallGrouping::Server => "server",
        CallGrouping::User => "user_name, user_is_verified",
    };
    let sql = format!(
        "WITH ranked AS (\
           SELECT {columns}, status, duration_us, \
             COUNT(duration_us) OVER (PARTITION BY {columns}) AS timed, \
             ROW_NUMBER() OVER (PARTITION BY {columns} \
               ORDER BY CASE WHEN duration_us IS NULL THEN 1 ELSE 0 END, duration_us) AS place \
           FROM tool_calls WHERE {conditions}) \
         SELECT {columns}, COUNT(*) AS calls, \
           COUNT(CASE WHEN status = 'success' THEN 1 END) AS succeeded, \
           COUNT(CASE WHEN status = 'error' THEN 1 END) AS failed, \
           MAX(CASE WHEN place = (timed * 50 + 99) / 100 THEN duration_us END) AS p50, \
           MAX(CASE WHEN place = (timed * 95 + 99) / 100 THEN duration_us END) AS p95, \
           MAX(CASE WHEN place = (timed * 99 + 99) / 100 THEN duration_us END) AS p99 \
         FROM ranked GROUP BY {columns}"
    );
    let rows = database.read(AssertSqlSafe(sql), values).await?;
    let mut groups = rows
        .iter()
        .map(|row| read_group(row, grouping))
        .collect::<Result<Vec<_>, _>>()?;
    groups.sort_by(|a, b| (&a.server, &a.tool, &a.user).cmp(&(&b.server, &b.tool, &b.user)));
    Ok(groups)
}

/// Counts the calls between each two successive boundaries. Each count reads only an index: the ID of
/// a call begins with its time, and calls that have not succeeded have an index of their own.
pub(super) async fn count_by_interval(
    database: &Database,
    filter: &CallFilter,
    boundaries: &[Timestamp],
) -> Result<Vec<CallCounts>> {
    let (conditions, mut values) = query::build_filter_conditions(filter);
    let first_boundary = values.len() + 1;
    values.extend(boundaries.iter().map(|time| CallId::min_at(*time).into()));
    let select_interval = |index: usize| {
        let (start, end) = (first_boundary + index, first_boundary + index + 1);
        let calls = format!(
            "SELECT COUNT(*) FROM tool_calls WHERE {conditions} AND id >= ${start} AND id < ${end}"
        );
        format!(
            "SELECT {index} AS number, ({calls}) AS calls, \
             ({calls} AND status = 'error' AND status <> 'success') AS failed"
        )
    };
    let intervals = 0..boundaries.len().saturating_sub(1);
    let selects: Vec<_> = intervals.map(select_interval).collect();
    if selects.is_empty() {
        return Ok(Vec::new());
    }
    let sql = format!("{} ORDER BY number", selects.join(" UNION ALL "));
    let rows = database.read(AssertSqlSafe(sql), values).await?;
    let read_counts = |row: &Row| {
        Ok(CallCounts {
            calls: row.count("calls")?,
            failed: row.count("failed")?,
        })
    };
    rows.iter().map(read_counts).collect()
}

fn read_group(row: &Row, grouping: CallGrouping) -> Result<CallStatistics> {
    let mut statistics = CallStatistics {
        server: None,
        tool: None,
        user: None,
        user_is_verified: false,
        calls: row.count("calls")?,
        succeeded: row.count("succeeded")?,
        failed: row.count("failed")?,
        p50: read_duration(row, "p50")?,
        p95: read_duration(row, "p95")?,
        p99: read_duration(row, "p99")?,
    };
    match grouping {
        CallGrouping::Tool => {
            statistics.server = row.optional_text("server")?;
            statistics.tool = Some(row.text("tool")?);
        }
        CallGrouping::Server => statistics.server = row.optional_text("server")?,
        CallGrouping::User => {
            statistics.user = row.optional_text("user_name")?;
            statistics.user_is_verified = row.integer("user_is_verified")? != 0;
        }
    }
    Ok(statistics)
}

fn read_duration(row: &Row, column: &str) -> Result<Option<Duration>> {
    let microseconds = row
        .optional_integer(column)?
        .map(u64::try_from)
        .transpose()
        .map_err(|_| unreadable_column(column))?;
    Ok(microseconds.map(Duration::from_micros))
}
