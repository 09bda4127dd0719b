use std::time::Duration;

use sqlx::{AssertSqlSafe, Executor, SqlSafeStr, SqliteTransaction};

use super::lease::ConnectionLease;
use super::{DatabaseFiles, Row, SqlValue, translate, value};
use crate::Result;

/// A transaction. Dropping a transaction without a commit rolls the transaction back.
pub(crate) enum Transaction {
    Sqlite(SqliteTransaction<'static>, Option<DatabaseFiles>),
    Postgres(ConnectionLease),
}

impl Transaction {
    pub(crate) async fn write(
        &mut self,
        sql: impl SqlSafeStr,
        values: Vec<SqlValue>,
    ) -> Result<u64> {
        let changed_rows = match self {
            Self::Sqlite(transaction, _) => value::bind_sqlite(sql, values)
                .execute(&mut **transaction)
                .await
                .map(|result| result.rows_affected()),
            Self::Postgres(lease) => lease.write(sql, values).await,
        };
        changed_rows.map_err(translate)
    }

    pub(crate) async fn read(
        &mut self,
        sql: impl SqlSafeStr,
        values: Vec<SqlValue>,
    ) -> Result<Vec<Row>> {
        match self {
            Self::Sqlite(transaction, _) => value::bind_sqlite(sql, values)
                .fetch_all(&mut **transaction)
                .await
                .map(|rows| rows.into_iter().map(Row::Sqlite).collect()),
            Self::Postgres(lease) => lease
                .read(sql, values)
                .await
                .map(|rows| rows.into_iter().map(Row::Postgres).collect()),
        }
        .map_err(translate)
    }

    /// Runs several statements, none of which has parameters.
    pub(crate) async fn run_script(&mut self, sql: impl SqlSafeStr) -> Result<()> {
        match self {
            Self::Sqlite(transaction, _) => (&mut **transaction)
                .execute(sqlx::raw_sql(sql))
                .await
                .map(drop),
            Self::Postgres(lease) => lease.run_script(sql).await,
        }
        .map_err(translate)
    }

    /// Sets the Postgres timeout of each following statement.
    pub(crate) fn set_statement_timeout(&mut self, timeout: Duration) {
        if let Self::Postgres(lease) = self {
            lease.set_statement_timeout(timeout);
        }
    }

    /// Locks a table against other writers until the end of the transaction. In SQLite, every
    /// transaction holds such a lock from its beginning.
    pub(crate) async fn lock_table(&mut self, table: &str) -> Result<()> {
        match self {
            Self::Sqlite(..) => Ok(()),
            Self::Postgres(_) => {
                let sql = format!("LOCK TABLE {table} IN EXCLUSIVE MODE");
                self.run_script(AssertSqlSafe(sql)).await
            }
        }
    }

    /// Locks a name until the end of the transaction. Other transactions that lock the same name
    /// wait. After the lock is acquired, statements see everything that the earlier holders of the
    /// lock have committed. In SQLite, every transaction is exclusive from its beginning.
    pub(crate) async fn lock_name(&mut self, name: &str) -> Result<()> {
        match self {
            Self::Sqlite(..) => Ok(()),
            Self::Postgres(_) => {
                let sql = "SELECT pg_advisory_xact_lock(hashtextextended($1, 0))";
                self.write(sql, vec![name.into()]).await.map(drop)
            }
        }
    }

    pub(crate) async fn commit(self) -> Result<()> {
        match self {
            Self::Sqlite(transaction, files) => {
                if let Some(files) = files {
                    files.check()?;
                }
                transaction.commit().await
            }
            Self::Postgres(lease) => lease.commit().await,
        }
        .map_err(translate)
    }
}
