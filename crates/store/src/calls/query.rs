use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use pillion_core::store::{
    CallFilter, CallId, CallStatus, Cursor, PageRequest, RateLimitRecord, RecordPage, StoreError,
    Timestamp, ToolCallRecord,
};

use pillion_core::tool::QuotaAccount;
use sqlx::AssertSqlSafe;

use super::{UnwrittenCalls, build_page, count_page_rows, record};
use crate::Result;
use crate::database::{Database, Row, SqlValue};

/// Returns a page of calls, newest first. The calls in `unwritten_calls` replace their outdated
/// rows in the database.
pub(super) async fn read_calls(
    database: &Database,
    filter: &CallFilter,
    page: &PageRequest,
    unwritten_calls: Option<UnwrittenCalls>,
) -> Result<RecordPage<ToolCallRecord>> {
    let UnwrittenCalls {
        matching_calls,
        ids,
    } = unwritten_calls.unwrap_or_default();
    let (mut conditions, mut values) = build_filter_conditions(filter);
    let after_id = page.after.as_ref().map(parse_cursor).transpose()?;
    if let Some(id) = after_id {
        values.push(id.into());
        conditions += &format!(" AND id < ${}", values.len());
    }
    // The query reads additional rows, because the rows of unwritten calls are outdated and are
    // removed from the page.
    let max_outdated_rows = i64::try_from(ids.len()).unwrap_or(i64::MAX / 2);
    let limit = i64::from(page.size()) + 1 + max_outdated_rows;
    values.push(limit.into());
    let from_clause = format!(
        "FROM tool_calls WHERE {conditions} ORDER BY id DESC LIMIT ${}",
        values.len()
    );
    let sizes_sql = format!("SELECT id, bytes {from_clause}");
    let row_bytes = |row: &Row| {
        if ids.contains(&row.call_id("id")?) {
            return Ok(0);
        }
        row.count("bytes")
    };
    let fitting_row_count = count_page_rows(database, sizes_sql, &values, page, row_bytes).await?;
    if let Some(row_count) = fitting_row_count {
        values.pop();
        values.push(limit.min(row_count).into());
    }
    let sql = format!("SELECT * {from_clause}");
    let rows = database.read(AssertSqlSafe(sql), values).await?;
    let mut items = rows
        .iter()
        .map(record::read_call)
        .collect::<Result<Vec<ToolCallRecord>, _>>()?;
    if !ids.is_empty() {
        items.retain(|call| !ids.contains(&call.id));
        let is_on_page = |call: &ToolCallRecord| after_id.is_none_or(|id| call.id < id);
        items.extend(matching_calls.into_iter().filter(is_on_page));
        items.sort_unstable_by_key(|call| std::cmp::Reverse(call.id));
    }
    Ok(build_page(items, page, record::count_bytes, |call| {
        build_cursor(call.id)
    }))
}

/// Returns whether a call matches the filter, by the rules of [`build_filter_conditions`].
pub(super) fn is_match(filter: &CallFilter, call: &ToolCallRecord) -> bool {
    let CallFilter {
        server,
        tool,
        user,
        only_verified,
        parent,
        status,
        from,
        until,
    } = filter;
    let is_expected = |expected: &Option<String>, actual: &Option<String>| {
        expected.is_none() || expected == actual
    };
    is_expected(server, &call.server)
        && tool.as_ref().is_none_or(|tool| *tool == call.tool)
        && is_expected(user, &call.user)
        && (!only_verified || call.user_is_verified)
        && parent.is_none_or(|parent| call.parent == Some(parent))
        && status.is_none_or(|status| call.status == status)
        && from.is_none_or(|from| call.id >= CallId::min_at(from))
        && until.is_none_or(|until| call.id < CallId::min_at(until))
}

/// Returns the calls that count toward rate limits: calls with a recorded duration, and calls whose
/// status shows that their tool may have run.
pub(super) async fn read_counted_calls(
    database: &Database,
    owner: &str,
    from_time: Timestamp,
    page: &PageRequest,
) -> Result<RecordPage<RateLimitRecord>> {
    let mut sql =
        "SELECT id, run_id, server, tool, user_name, user_is_verified, principal, completed_at, \
                   duration_us \
                   FROM tool_calls WHERE id >= $1 AND owner = $2 AND (duration_us IS NOT NULL \
                   OR status IN ('running', 'interrupted', 'success'))"
            .to_owned();
    let mut values = vec![CallId::min_at(from_time).into(), owner.into()];
    if let Some(after_cursor) = &page.after {
        values.push(parse_cursor(after_cursor)?.into());
        sql += &format!(" AND id < ${}", values.len());
    }
    values.push((i64::from(page.size()) + 1).into());
    sql += &format!(" ORDER BY id DESC LIMIT ${}", values.len());
    let rows = database.read(AssertSqlSafe(sql), values).await?;
    let items = rows
        .iter()
        .map(read_rate_limit_record)
        .collect::<Result<_, _>>()?;
    // The size limit of a page applies only to JSON, which the records for rate limits do not
    // contain.
    let record_bytes = |_: &RateLimitRecord| 0;
    Ok(build_page(items, page, record_bytes, |call| {
        build_cursor(call.id)
    }))
}

fn read_rate_limit_record(row: &Row) -> Result<RateLimitRecord> {
    let id = row.call_id("id")?;
    let microseconds = row.optional_integer("duration_us")?;
    let duration = microseconds.and_then(|microseconds| u64::try_from(microseconds).ok());
    let began_at = match (row.optional_timestamp("completed_at")?, duration) {
        (Some(end), Some(duration)) => end.minus(Duration::from_micros(duration)),
        _ => id.creation_time(),
    };
    Ok(RateLimitRecord {
        id,
        run_id: row.text("run_id")?,
        server: row.optional_text("server")?,
        tool: row.text("tool")?,
        account: QuotaAccount::new(
            row.optional_text("user_name")?.as_deref(),
            row.integer("user_is_verified")? != 0,
            row.optional_text("principal")?.as_deref(),
        ),
        began_at,
    })
}

/// Returns the condition after `WHERE` for a filter, and the values of the condition.
pub(super) fn build_filter_conditions(filter: &CallFilter) -> (String, Vec<SqlValue>) {
    let comparisons: [(&str, Option<SqlValue>); 8] = [
        ("server =", filter.server.as_ref().map(SqlValue::from)),
        ("tool =", filter.tool.as_ref().map(SqlValue::from)),
        ("user_name =", filter.user.as_ref().map(SqlValue::from)),
        (
            "user_is_verified =",
            filter.only_verified.then(|| SqlValue::from(true)),
        ),
        ("parent =", filter.parent.map(SqlValue::from)),
        (
            "status =",
            filter.status.map(CallStatus::as_str).map(SqlValue::from),
        ),
        ("id >=", filter.from.map(CallId::min_at).map(SqlValue::from)),
        ("id <", filter.until.map(CallId::min_at).map(SqlValue::from)),
    ];
    let mut values = Vec::new();
    let mut sql = "1 = 1".to_owned();
    for (comparison, optional_value) in comparisons {
        let Some(value) = optional_value else {
            continue;
        };
        values.push(value);
        sql += &format!(" AND {comparison} ${}", values.len());
    }
    // SQLite uses the partial index of calls whose status is not `success` only if the query
    // repeats the condition of the index.
    if filter
        .status
        .is_some_and(|status| status != CallStatus::Success)
    {
        sql += " AND status <> 'success'";
    }
    (sql, values)
}

fn build_cursor(id: CallId) -> Cursor {
    Cursor::new(URL_SAFE_NO_PAD.encode(id.as_bytes()))
}

fn parse_cursor(cursor: &Cursor) -> Result<CallId> {
    let bytes = URL_SAFE_NO_PAD.decode(cursor.as_str()).ok();
    let id = bytes.and_then(|bytes| CallId::try_from(&bytes[..]).ok());
    id.ok_or_else(|| StoreError::invalid("the cursor is not from the list of calls"))
}
