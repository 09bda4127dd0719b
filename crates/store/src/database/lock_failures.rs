use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use sqlx::pool::PoolConnection;
use sqlx::{Error, SqlSafeStr, Sqlite, SqlitePool, SqliteTransaction};

/// The primary code of SQLITE_BUSY, the lowest byte of the result code.
const BUSY: u32 = 5;

/// When a write last failed because another process had locked the database.
///
/// All writes of this process share a connection. While one write waits for the lock until its
/// timeout, other writes wait for the connection, and would then wait for the lock one after the
/// other. Instead, the other writes fail together with the first write. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct LockFailures(Arc<Mutex<Option<LockFailure>>>);

#[derive(Debug)]
struct LockFailure {
    at: Instant,
    message: String,
}

impl LockFailures {
    /// Takes the writing connection, unless another write fails because of a lock in the meantime.
    pub(super) async fn acquire(
        &self,
        writer: &SqlitePool,
    ) -> sqlx::Result<PoolConnection<Sqlite>> {
        let start = Instant::now();
        let connection = writer.acquire().await?;
        match &*self.0.lock() {
            Some(failure) if failure.at > start => Err(Error::Io(std::io::Error::new(
                std::io::ErrorKind::WouldBlock,
                failure.message.clone(),
            ))),
            _ => Ok(connection),
        }
    }

    /// Begins a transaction that will write.
    pub(super) async fn begin(
        &self,
        writer: &SqlitePool,
    ) -> sqlx::Result<SqliteTransaction<'static>> {
        let connection = self.acquire(writer).await?;
        let begun = SqliteTransaction::begin(connection, Some("BEGIN IMMEDIATE".into_sql_str()));
        self.note(begun.await)
    }

    /// Closes the writing connection and opens another. After some errors, such as a full disk,
    /// SQLite rolls back the transaction by itself, but sqlx considers the transaction open.
    pub(super) async fn replace_connection(&self, writer: &SqlitePool) -> sqlx::Result<()> {
        self.acquire(writer).await?.close().await
    }

    /// Records whether a write failed because of a lock, and returns the outcome of the write.
    pub(super) fn note<T>(&self, outcome: sqlx::Result<T>) -> sqlx::Result<T> {
        if let Err(error) = &outcome
            && is_locked(error)
        {
            *self.0.lock() = Some(LockFailure {
                at: Instant::now(),
                message: error.to_string(),
            });
        }
        outcome
    }
}

/// Returns whether another connection has locked the database.
pub(super) fn is_locked(error: &Error) -> bool {
    let Error::Database(error) = error else {
        return false;
    };
    let code = error.code().and_then(|code| code.parse::<u32>().ok());
    code.is_some_and(|code| code & 0xff == BUSY)
}
