use pillion_core::store::{CallId, Timestamp};
use sqlx::SqlSafeStr;
use sqlx::postgres::{PgArguments, Postgres};
use sqlx::query::Query;
use sqlx::sqlite::{Sqlite, SqliteArguments};

/// A value of a statement. NULL values have a type, too, because Postgres requires a type.
#[derive(Debug, Clone)]
pub(crate) enum SqlValue {
    Text(Option<String>),
    Integer(Option<i64>),
    Bytes(Option<Vec<u8>>),
}

/// Returns the statement with its values, for SQLite. Each connection prepares the statement once.
pub(super) fn bind_sqlite(
    sql: impl SqlSafeStr,
    values: Vec<SqlValue>,
) -> Query<'static, Sqlite, SqliteArguments> {
    values
        .into_iter()
        .fold(sqlx::query(sql), |query, value| match value {
            SqlValue::Text(text) => query.bind(text.map(replace_nul)),
            SqlValue::Integer(number) => query.bind(number),
            SqlValue::Bytes(bytes) => query.bind(bytes),
        })
}

/// Returns the statement with its values, for Postgres. Each connection prepares the statement
/// once.
pub(super) fn bind_postgres(
    sql: impl SqlSafeStr,
    values: Vec<SqlValue>,
) -> Query<'static, Postgres, PgArguments> {
    values
        .into_iter()
        .fold(sqlx::query(sql), |query, value| match value {
            SqlValue::Text(text) => query.bind(text.map(replace_nul)),
            SqlValue::Integer(number) => query.bind(number),
            SqlValue::Bytes(bytes) => query.bind(bytes),
        })
}

/// Replaces zero bytes with `\u{fffd}`, for both databases: Postgres cannot store zero bytes, and a
/// malicious server may send them.
fn replace_nul(text: String) -> String {
    if text.contains('\0') {
        text.replace('\0', "\u{fffd}")
    } else {
        text
    }
}

impl From<&str> for SqlValue {
    fn from(text: &str) -> Self {
        Self::Text(Some(text.to_owned()))
    }
}

impl From<&String> for SqlValue {
    fn from(text: &String) -> Self {
        Self::Text(Some(text.clone()))
    }
}

impl From<String> for SqlValue {
    fn from(text: String) -> Self {
        Self::Text(Some(text))
    }
}

impl From<Option<String>> for SqlValue {
    fn from(text: Option<String>) -> Self {
        Self::Text(text)
    }
}

impl From<&Option<String>> for SqlValue {
    fn from(text: &Option<String>) -> Self {
        Self::Text(text.clone())
    }
}

impl From<Option<&str>> for SqlValue {
    fn from(text: Option<&str>) -> Self {
        Self::Text(text.map(str::to_owned))
    }
}

impl From<i64> for SqlValue {
    fn from(number: i64) -> Self {
        Self::Integer(Some(number))
    }
}

impl From<Option<i64>> for SqlValue {
    fn from(number: Option<i64>) -> Self {
        Self::Integer(number)
    }
}

impl From<bool> for SqlValue {
    fn from(is_true: bool) -> Self {
        Self::Integer(Some(is_true.into()))
    }
}

impl From<Timestamp> for SqlValue {
    fn from(timestamp: Timestamp) -> Self {
        Self::Integer(Some(timestamp.as_millis()))
    }
}

impl From<Option<Timestamp>> for SqlValue {
    fn from(timestamp: Option<Timestamp>) -> Self {
        Self::Integer(timestamp.map(Timestamp::as_millis))
    }
}

impl From<&[u8]> for SqlValue {
    fn from(bytes: &[u8]) -> Self {
        Self::Bytes(Some(bytes.to_vec()))
    }
}

impl From<CallId> for SqlValue {
    fn from(id: CallId) -> Self {
        Self::Bytes(Some(id.as_bytes().to_vec()))
    }
}

impl From<Option<CallId>> for SqlValue {
    fn from(id: Option<CallId>) -> Self {
        Self::Bytes(id.map(|id| id.as_bytes().to_vec()))
    }
}
