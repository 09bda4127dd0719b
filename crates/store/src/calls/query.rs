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
use crate::database::{Database, Row, Value};

/// Returns a page of calls, newest first. The calls of `stuck` replace their outdated rows.
pub(super) async fn calls(
    database: &Database,
    filter: &CallFilter,
    page: &PageRequest,
    stuck: Option<UnwrittenCalls>,
) -> Result<RecordPage<ToolCallRecord>, StoreError> {
    let UnwrittenCalls { matching, ids } = stuck.unwrap_or_default();
    let (mut conditions, mut values) = conditions(filter);
    let after = page.after.as_ref().map(parse_cursor).transpose()?;
    if let Some(after) = after {
        values.push(after.into());
        conditions += &format!(" AND id < ${}", values.len());
    }
    // The query reads additional rows, because some rows may be outdated.
    let outdated = i64::try_from(ids.len()).unwrap_or(i64::MAX / 2);
    let limit = i64::from(page.size()) + 1 + outdated;
    values.push(limit.into());
    let from = format!(
        "FROM tool_calls WHERE {conditions} ORDER BY id DESC LIMIT ${}",
        values.len()
    );
    let sizes = format!("SELECT id, bytes {from}");
    let row_bytes = |row: &Row| {
        if ids.contains(&row.call_id("id")?) {
            return Ok(0);
        }
        row.count("bytes")
    };
    if let Some(fitting) = count_page_rows(database, sizes, &values, page, row_bytes).await? {
        values.pop();
        values.push(limit.min(fitting).into());
    }
    let sql = format!("SELECT * {from}");
    let rows = database.read(AssertSqlSafe(sql), values).await?;
    let mut items = rows
        .iter()
        .map(record::read)
        .collect::<Result<Vec<ToolCallRecord>, _>>()?;
    if !ids.is_empty() {
        items.retain(|call| !ids.contains(&call.id));
        let is_on_page = |call: &ToolCallRecord| after.is_none_or(|after| call.id < after);
        items.extend(matching.into_iter().filter(is_on_page));
        items.sort_unstable_by_key(|call| std::cmp::Reverse(call.id));
    }
    Ok(build_page(items, page, record::bytes, |call| {
        cursor(call.id)
    }))
}

/// Returns whether a call matches the filter, by the rules of [`conditions`].
pub(super) fn admits(filter: &CallFilter, call: &ToolCallRecord) -> bool {
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
    let is_match =
        |expected: &Option<String>, found: &Option<String>| expected.is_none() || expected == found;
    is_match(server, &call.server)
        && tool.as_ref().is_none_or(|tool| *tool == call.tool)
        && is_match(user, &call.user)
        && (!only_verified || call.user_is_verified)
        && parent.is_none_or(|parent| call.parent == Some(parent))
        && status.is_none_or(|status| call.status == status)
        && from.is_none_or(|from| call.id >= CallId::min_at(from))
        && until.is_none_or(|until| call.id < CallId::min_at(until))
}

/// Returns the calls whose tool has run: calls with a duration, or with one of the listed statuses.
pub(super) async fn counted_calls(
    database: &Database,
    owner: &str,
    from: Timestamp,
    page: &PageRequest,
) -> Result<RecordPage<RateLimitRecord>, StoreError> {
    let mut sql =
        "SELECT id, run_id, server, tool, user_name, user_is_verified, principal, completed_at, \
                   duration_us \
                   FROM tool_calls WHERE id >= $1 AND owner = $2 AND (duration_us IS NOT NULL \
                   OR status IN ('running', 'interrupted', 'success'))"
            .to_owned();
    let mut values = vec![CallId::min_at(from).into(), owner.into()];
    if let Some(after) = &page.after {
        values.push(parse_cursor(after)?.into());
        sql += &format!(" AND id < ${}", values.len());
    }
    values.push((i64::from(page.size()) + 1).into());
    sql += &format!(" ORDER BY id DESC LIMIT ${}", values.len());
    let rows = database.read(AssertSqlSafe(sql), values).await?;
    let items = rows
        .iter()
        .map(read_rate_limit_record)
        .collect::<Result<_, _>>()?;
    // The records contain no JSON.
    let bytes = |_: &RateLimitRecord| 0;
    Ok(build_page(items, page, bytes, |call| cursor(call.id)))
}

fn read_rate_limit_record(row: &Row) -> Result<RateLimitRecord, StoreError> {
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
pub(super) fn conditions(filter: &CallFilter) -> (String, Vec<Value>) {
    let columns: [(&str, Option<Value>); 8] = [
        ("server =", filter.server.as_ref().map(Value::from)),
        ("tool =", filter.tool.as_ref().map(Value::from)),
        ("user_name =", filter.user.as_ref().map(Value::from)),
        (
            "user_is_verified =",
            filter.only_verified.then(|| Value::from(true)),
        ),
        ("parent =", filter.parent.map(Value::from)),
        (
            "status =",
            filter.status.map(CallStatus::as_str).map(Value::from),
        ),
        ("id >=", filter.from.map(CallId::min_at).map(Value::from)),
        ("id <", filter.until.map(CallId::min_at).map(Value::from)),
    ];
    let mut values = Vec::new();
    let mut sql = "1 = 1".to_owned();
    for (comparison, value) in columns {
        let Some(value) = value else { continue };
        values.push(value);
        sql += &format!(" AND {comparison} ${}", values.len());
    }
    // The index of calls without success is partial, and SQLite uses the index only if the query
    // repeats the condition of the index.
    if filter
        .status
        .is_some_and(|status| status != CallStatus::Success)
    {
        sql += " AND status <> 'success'";
    }
    (sql, values)
}

fn cursor(id: CallId) -> Cursor {
    Cursor::new(URL_SAFE_NO_PAD.encode(id.as_bytes()))
}

fn parse_cursor(cursor: &Cursor) -> Result<CallId, StoreError> {
    let bytes = URL_SAFE_NO_PAD.decode(cursor.as_str()).ok();
    let id = bytes.and_then(|bytes| CallId::try_from(&bytes[..]).ok());
    id.ok_or_else(|| StoreError::invalid("not a valid cursor of this list"))
}
