use std::io;
use std::time::Duration;

use pillion_deadline::Elapsed;
use pillion_deadline::timeout;
use sqlx::pool::PoolConnection;
use sqlx::postgres::PgRow;
use sqlx::{Executor, SqlSafeStr};

use super::postgres::Postgres;
use super::{Value, value};

/// A connection to Postgres that is in use. Dropping the lease returns the connection and rolls
/// back an open transaction.
///
/// An unresponsive or unreachable server reports no error, so each statement and the return of the
/// connection have a timeout. A connection with an unfinished statement is closed, because the next
/// response on the connection would belong to that statement.
pub(crate) struct Lease {
    postgres: Postgres,
    /// The connection; `None` after the connection was closed.
    connection: Option<PoolConnection<sqlx::Postgres>>,
    statement_timeout: Duration,
    has_unfinished_statement: bool,
    in_transaction: bool,
}

impl Lease {
    pub(super) fn new(postgres: Postgres, connection: PoolConnection<sqlx::Postgres>) -> Self {
        Self {
            statement_timeout: postgres.statement_timeout(),
            postgres,
            connection: Some(connection),
            has_unfinished_statement: false,
            in_transaction: false,
        }
    }

    /// Sets the timeout of each following statement.
    pub(super) fn set_statement_timeout(&mut self, timeout: Duration) {
        self.statement_timeout = timeout;
    }

    /// Runs a statement and returns the number of changed rows.
    pub(super) async fn write(
        &mut self,
        sql: impl SqlSafeStr,
        values: Vec<Value>,
    ) -> sqlx::Result<u64> {
        let (limit, connection) = self.begin_statement()?;
        let execution = value::postgres(sql, values).execute(&mut **connection);
        let outcome = timeout(limit, execution).await;
        self.finish(outcome).map(|done| done.rows_affected())
    }

    /// Runs a query within the statement timeout, and returns its rows.
    pub(super) async fn read(
        &mut self,
        sql: impl SqlSafeStr,
        values: Vec<Value>,
    ) -> sqlx::Result<Vec<PgRow>> {
        let (limit, connection) = self.begin_statement()?;
        let execution = value::postgres(sql, values).fetch_all(&mut **connection);
        let outcome = timeout(limit, execution).await;
        self.finish(outcome)
    }

    /// Runs several statements without values.
    pub(super) async fn script(&mut self, sql: impl SqlSafeStr) -> sqlx::Result<()> {
        let (limit, connection) = self.begin_statement()?;
        let execution = (&mut **connection).execute(sqlx::raw_sql(sql));
        let outcome = timeout(limit, execution).await;
        self.finish(outcome).map(drop)
    }

    /// Begins a transaction, which ends when the lease is dropped.
    pub(super) async fn begin(mut self) -> sqlx::Result<Self> {
        self.script("BEGIN").await?;
        self.in_transaction = true;
        Ok(self)
    }

    pub(super) async fn commit(mut self) -> sqlx::Result<()> {
        self.script("COMMIT").await?;
        self.in_transaction = false;
        Ok(())
    }

    fn begin_statement(&mut self) -> sqlx::Result<(Duration, &mut PoolConnection<sqlx::Postgres>)> {
        let connection = self.connection.as_mut().ok_or_else(unresponsive)?;
        self.has_unfinished_statement = true;
        Ok((self.statement_timeout, connection))
    }

    fn finish<T>(&mut self, outcome: Result<sqlx::Result<T>, Elapsed>) -> sqlx::Result<T> {
        let Ok(result) = outcome else {
            self.connection.take().map(PoolConnection::detach);
            // All idle connections lead to the same unresponsive server.
            self.postgres.close_idle();
            return Err(unresponsive());
        };
        self.has_unfinished_statement = false;
        result
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let Some(mut connection) = self.connection.take() else {
            return;
        };
        if self.has_unfinished_statement {
            drop(connection.detach());
            return;
        }
        let limit = self.postgres.statement_timeout();
        let home = self.postgres.home();
        if !self.in_transaction {
            let back = connection.return_to_pool();
            // Returning a connection checks whether the server responds; after the timeout, the
            // connection is dropped instead.
            home.spawn(async move { timeout(limit, back).await });
            return;
        }
        home.spawn(async move {
            let undone = timeout(limit, (&mut *connection).execute("ROLLBACK")).await;
            if let Ok(Ok(_)) = undone {
                let _ = timeout(limit, connection.return_to_pool()).await;
            } else {
                drop(connection.detach());
            }
        });
    }
}

fn unresponsive() -> sqlx::Error {
    let message = "Postgres does not respond";
    io::Error::new(io::ErrorKind::TimedOut, message).into()
}
