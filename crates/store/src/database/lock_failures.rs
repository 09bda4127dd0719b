use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use sqlx::pool::PoolConnection;
use sqlx::{Error, SqlSafeStr, Sqlite, SqlitePool, SqliteTransaction};

/// The primary result code SQLITE_BUSY, which is the lowest byte of an extended result code.
const BUSY_CODE: u32 = 5;

/// The time at which a write last failed because another process had locked the database.
///
/// All writes of this process share a connection. While one write waits for the lock until its
/// timeout, other writes wait for the connection, and would then wait for the lock one after the
/// other. Instead, the other writes fail together with the first write. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct LockFailures(Arc<Mutex<Option<LockFailure>>>);

#[derive(Debug)]
struct LockFailure {
    failed_at: Instant,
    message: String,
}

impl LockFailures {
    /// Waits for the writing connection and takes it. Fails if, during the wait, another write
    /// failed because of a lock.
    pub(super) async fn acquire(&self, pool: &SqlitePool) -> sqlx::Result<PoolConnection<Sqlite>> {
        let started_at = Instant::now();
        let connection = pool.acquire().await?;
        match &*self.0.lock() {
            Some(failure) if failure.failed_at > started_at => Err(Error::Io(std::io::Error::new(
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
        let statement = "BEGIN IMMEDIATE".into_sql_str();
        let outcome = SqliteTransaction::begin(connection, Some(statement)).await;
        self.note(outcome)
    }

    /// Closes the writing connection, so that the pool opens another one. After some errors, such
    /// as a full disk, SQLite rolls back the transaction by itself, but sqlx considers the
    /// transaction open.
    pub(super) async fn replace_connection(&self, writer: &SqlitePool) -> sqlx::Result<()> {
        self.acquire(writer).await?.close().await
    }

    /// Records whether a write failed because of a lock, and returns the outcome of the write.
    pub(super) fn note<T>(&self, outcome: sqlx::Result<T>) -> sqlx::Result<T> {
        if let Err(error) = &outcome
            && is_locked(error)
        {
            *self.0.lock() = Some(LockFailure {
                failed_at: Instant::now(),
                message: error.to_string(),
            });
        }
        outcome
    }
}

/// Returns whether another connection has locked the database.
pub(super) fn is_locked(error: &Error) -> bool {
    let Error::Database(database_error) = error else {
        return false;
    };
    let code = database_error
        .code()
        .and_then(|code| code.parse::<u32>().ok());
    code.is_some_and(|code| code & 0xff == BUSY_CODE)
}
