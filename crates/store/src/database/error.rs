use pillion_core::store::{StoreError, StoreErrorKind};
use sqlx::Error;
use sqlx::error::{DatabaseError, ErrorKind};
use sqlx::sqlite::SqliteError;

/// Translates an error of the database. The message contains the database's own message, which
/// names tables and constraints but never values, because all values are bound.
pub(crate) fn translate(error: Error) -> StoreError {
    let (kind, message) = match &error {
        Error::Database(error) => (
            classify(error.as_ref()),
            format!("the store rejected the statement: {}", error.message()),
        ),
        Error::RowNotFound
        | Error::TypeNotFound { .. }
        | Error::ColumnIndexOutOfBounds { .. }
        | Error::ColumnNotFound(_)
        | Error::ColumnDecode { .. }
        | Error::Decode(_)
        | Error::Protocol(_) => (
            StoreErrorKind::Corrupt,
            "the store returned an unreadable result".to_owned(),
        ),
        Error::Encode(_) => (
            StoreErrorKind::Invalid,
            "a value cannot be encoded for the store".to_owned(),
        ),
        Error::PoolTimedOut => (
            StoreErrorKind::Unavailable,
            "the store is busy or cannot be reached".to_owned(),
        ),
        // The remaining errors are those of connections, TLS and threads, and errors that future
        // versions of sqlx add.
        _ => (
            StoreErrorKind::Unavailable,
            "the connection to the store failed".to_owned(),
        ),
    };
    StoreError::new(kind, message).with_source(error)
}

fn classify(error: &dyn DatabaseError) -> StoreErrorKind {
    match error.kind() {
        ErrorKind::UniqueViolation | ErrorKind::ForeignKeyViolation => {
            return StoreErrorKind::Conflict;
        }
        ErrorKind::NotNullViolation | ErrorKind::CheckViolation => return StoreErrorKind::Invalid,
        _ => {}
    }
    let code = error.code().unwrap_or_default();
    if error.try_downcast_ref::<SqliteError>().is_some() {
        classify_sqlite(&code)
    } else {
        classify_postgres(&code)
    }
}

/// Classifies a result code of SQLite by its lowest byte, the primary code. See
/// <https://www.sqlite.org/rescode.html>.
fn classify_sqlite(code: &str) -> StoreErrorKind {
    match code.parse().map(|code: u32| code & 0xff) {
        // SQLITE_ERROR (no such table), SQLITE_CORRUPT, SQLITE_SCHEMA, SQLITE_NOTADB
        Ok(1 | 11 | 17 | 26) => StoreErrorKind::Corrupt,
        // SQLITE_TOOBIG, SQLITE_MISMATCH
        Ok(18 | 20) => StoreErrorKind::Invalid,
        _ => StoreErrorKind::Unavailable,
    }
}

/// Classifies an error code of Postgres. See
/// <https://www.postgresql.org/docs/current/errcodes-appendix.html>.
fn classify_postgres(code: &str) -> StoreErrorKind {
    match code.get(..2) {
        // Data exceptions, such as a number out of range.
        Some("22") => StoreErrorKind::Invalid,
        // Undefined tables and other syntax errors, and corrupted data.
        Some("42" | "XX") => StoreErrorKind::Corrupt,
        _ => StoreErrorKind::Unavailable,
    }
}
