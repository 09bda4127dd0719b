//! A common interface to SQLite and Postgres: statements with `$1`, typed values, and rows by
//! column name.

mod directory_watch;
mod error;
mod files;
mod lease;
mod lock_failures;
mod maintenance;
mod postgres;
mod row;
mod sqlite;
mod transaction;
mod value;

use sqlx::{Error, SqlSafeStr, SqlitePool};

use crate::Result;
use crate::options::{StoreLocation, StoreOptions};
pub(crate) use error::translate;
pub(crate) use files::{DatabaseFileId, DatabaseFiles, check_disk};
use lease::ConnectionLease;
use lock_failures::{LockFailures, is_locked};
pub(crate) use postgres::PostgresPool;
pub(crate) use row::{Row, unreadable_column};
pub(crate) use transaction::Transaction;
pub(crate) use value::SqlValue;

/// Pools of connections. SQLite has one writing connection, so that the writers of this process
/// queue in order instead of failing with conflicts, and several reading connections.
#[derive(Debug, Clone)]
pub(crate) enum Database {
    Sqlite {
        writer: SqlitePool,
        readers: SqlitePool,
        lock_failures: LockFailures,
        /// The files of the database; `None` for a database in memory.
        files: Option<DatabaseFiles>,
    },
    Postgres(PostgresPool),
}

impl Database {
    pub(crate) async fn open(options: &StoreOptions) -> Result<Self> {
        match &options.location {
            StoreLocation::Memory => sqlite::open_memory(options).await,
            StoreLocation::File(path) => sqlite::open_file(path, options).await,
            StoreLocation::Postgres(url) => postgres::open(url, options).await,
        }
    }

    /// Checks that the file of the database is still at its path.
    ///
    /// # Errors
    /// `unavailable`: the file was deleted or replaced, so that writes would be lost.
    pub(crate) fn check_files(&self) -> Result<()> {
        match self.files() {
            Some(files) => files.check(),
            None => Ok(()),
        }
    }

    /// Checks the files like [`check_files`](Self::check_files), but only if files in the
    /// database's directory may have changed since the last check.
    ///
    /// # Errors
    /// `unavailable`: the file was deleted or replaced, so that writes would be lost.
    pub(crate) fn check_files_if_changed(&self, change_count: Option<u64>) -> Result<()> {
        match self.files() {
            Some(files) => files.check_if_changed(change_count),
            None => Ok(()),
        }
    }

    /// Checks that the disk of the database's file accepts data.
    ///
    /// # Errors
    /// `unavailable`, if the disk is full or read-only, or the file was deleted or replaced.
    pub(crate) fn check_disk(&self) -> Result<()> {
        match self.files() {
            Some(files) => files.check_disk(),
            None => Ok(()),
        }
    }

    /// Returns how many times files of the database's directory were created, deleted or renamed
    /// since the database was opened, or `None` if the number is not known.
    pub(crate) fn count_directory_changes(&self) -> Option<u64> {
        self.files()
            .and_then(DatabaseFiles::count_directory_changes)
    }

    fn files(&self) -> Option<&DatabaseFiles> {
        match self {
            Self::Sqlite { files, .. } => files.as_ref(),
            Self::Postgres(_) => None,
        }
    }

    /// Runs one statement, commits it, and returns the number of changed rows.
    pub(crate) async fn write(&self, sql: impl SqlSafeStr, values: Vec<SqlValue>) -> Result<u64> {
        self.check_files()?;
        let changed_rows = match self {
            Self::Sqlite {
                writer,
                lock_failures,
                ..
            } => match lock_failures.acquire(writer).await {
                Ok(mut connection) => {
                    let statement = value::bind_sqlite(sql, values);
                    let outcome = statement.execute(&mut *connection).await;
                    lock_failures.note(outcome.map(|result| result.rows_affected()))
                }
                Err(error) => Err(error),
            },
            Self::Postgres(postgres) => {
                let sql = sql.into_sql_str();
                let operation =
                    |mut lease: ConnectionLease| async move { lease.write(sql, values).await };
                postgres.run_on_home_runtime(operation).await
            }
        };
        changed_rows.map_err(translate)
    }

    /// Runs a query and returns its rows.
    pub(crate) async fn read(
        &self,
        sql: impl SqlSafeStr,
        values: Vec<SqlValue>,
    ) -> Result<Vec<Row>> {
        // The files are checked before the query, because a connection that is opened after the
        // files were replaced would not use the files of the existing connections.
        self.check_files()?;
        match self {
            Self::Sqlite { readers, .. } => value::bind_sqlite(sql, values)
                .fetch_all(readers)
                .await
                .map(|rows| rows.into_iter().map(Row::Sqlite).collect()),
            Self::Postgres(postgres) => {
                let sql = sql.into_sql_str();
                let operation =
                    |mut lease: ConnectionLease| async move { lease.read(sql, values).await };
                let rows = postgres.run_on_home_runtime(operation).await;
                rows.map(|rows| rows.into_iter().map(Row::Postgres).collect())
            }
        }
        .map_err(translate)
    }

    /// Returns the first row of a query.
    pub(crate) async fn read_one(
        &self,
        sql: impl SqlSafeStr,
        values: Vec<SqlValue>,
    ) -> Result<Option<Row>> {
        Ok(self.read(sql, values).await?.into_iter().next())
    }

    /// Begins a transaction that will write.
    pub(crate) async fn begin(&self) -> Result<Transaction> {
        self.check_files()?;
        match self {
            Self::Sqlite {
                writer,
                lock_failures,
                files,
                ..
            } => {
                let mut outcome = lock_failures.begin(writer).await;
                if files.is_some() && matches!(outcome, Err(Error::InvalidSavePointStatement)) {
                    lock_failures
                        .replace_connection(writer)
                        .await
                        .map_err(translate)?;
                    outcome = lock_failures.begin(writer).await;
                }
                outcome.map(|transaction| Transaction::Sqlite(transaction, files.clone()))
            }
            Self::Postgres(postgres) => {
                let outcome = postgres.run_on_home_runtime(ConnectionLease::begin).await;
                outcome.map(Transaction::Postgres)
            }
        }
        .map_err(translate)
    }

    pub(crate) async fn close(&self) {
        match self {
            Self::Sqlite {
                writer, readers, ..
            } => {
                // Moves the write-ahead log into the database file. If the checkpoint fails, the
                // data in the log stay durable.
                let sql = "PRAGMA wal_checkpoint(TRUNCATE)";
                if let Err(error) = self.write(sql, vec![]).await {
                    tracing::debug!(
                        %error,
                        "Cannot move the write-ahead log into the database file"
                    );
                }
                readers.close().await;
                writer.close().await;
            }
            Self::Postgres(postgres) => postgres.close().await,
        }
    }
}
