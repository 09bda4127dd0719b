use pillion_core::store::{StoreError, StoreErrorKind};
use sqlx::Error;
use sqlx::error::{DatabaseError, ErrorKind};
use sqlx::sqlite::SqliteError;

/// What the database says, as one of our kinds. The text of the database comes along: it names
/// tables and constraints, and never values, which are all bound.
pub(crate) fn translate(error: Error) -> StoreError {
    let (kind, message) = match &error {
        Error::Database(said) => (
            kind_of(said.as_ref()),
            format!("the store refused: {}", said.message()),
        ),
        Error::RowNotFound
        | Error::TypeNotFound { .. }
        | Error::ColumnIndexOutOfBounds { .. }
        | Error::ColumnNotFound(_)
        | Error::ColumnDecode { .. }
        | Error::Decode(_)
        | Error::Protocol(_) => (
            StoreErrorKind::Corrupt,
            "the store gave an unreadable answer".to_owned(),
        ),
        Error::Encode(_) => (
            StoreErrorKind::Invalid,
            "the store cannot keep such a value".to_owned(),
        ),
        Error::PoolTimedOut => (
            StoreErrorKind::Unavailable,
            "the store is busy or cannot be reached".to_owned(),
        ),
        // Connections, encryption on the way, threads: sqlx may add more of them.
        _ => (
            StoreErrorKind::Unavailable,
            "the store cannot be reached".to_owned(),
        ),
    };
    StoreError::new(kind, message).with_source(error)
}

fn kind_of(said: &dyn DatabaseError) -> StoreErrorKind {
    match said.kind() {
        ErrorKind::UniqueViolation | ErrorKind::ForeignKeyViolation => {
            return StoreErrorKind::Conflict;
        }
        ErrorKind::NotNullViolation | ErrorKind::CheckViolation => return StoreErrorKind::Invalid,
        _ => {}
    }
    let code = said.code().unwrap_or_default();
    if said.try_downcast_ref::<SqliteError>().is_some() {
        of_sqlite(&code)
    } else {
        of_postgres(&code)
    }
}

/// <https://www.sqlite.org/rescode.html>; the lowest byte is the primary code.
fn of_sqlite(code: &str) -> StoreErrorKind {
    match code.parse().map(|code: u32| code & 0xff) {
        // SQLITE_ERROR (no such table), SQLITE_CORRUPT, SQLITE_SCHEMA, SQLITE_NOTADB
        Ok(1 | 11 | 17 | 26) => StoreErrorKind::Corrupt,
        // SQLITE_TOOBIG, SQLITE_MISMATCH
        Ok(18 | 20) => StoreErrorKind::Invalid,
        _ => StoreErrorKind::Unavailable,
    }
}

/// <https://www.postgresql.org/docs/current/errcodes-appendix.html>
fn of_postgres(code: &str) -> StoreErrorKind {
    match code.get(..2) {
        // Data exception: a number that is out of range, say.
        Some("22") => StoreErrorKind::Invalid,
        // Undefined table and the like; corrupted data.
        Some("42" | "XX") => StoreErrorKind::Corrupt,
        _ => StoreErrorKind::Unavailable,
    }
}
