use std::io;
use std::time::Duration;

use pillion_deadline::Elapsed;
use pillion_deadline::timeout;
use sqlx::pool::PoolConnection;
use sqlx::postgres::PgRow;
use sqlx::{Executor, SqlSafeStr};

use super::postgres::PostgresPool;
use super::{SqlValue, value};

/// A connection to Postgres that is in use. Dropping the lease returns the connection and rolls
/// back an open transaction.
///
/// An unresponsive or unreachable server reports no error, so each statement and the return of the
/// connection have a timeout. A connection with an unfinished statement is closed, because the next
/// response on the connection would belong to that statement.
pub(crate) struct ConnectionLease {
    postgres: PostgresPool,
    /// The connection; `None` after the connection was closed.
    connection: Option<PoolConnection<sqlx::Postgres>>,
    statement_timeout: Duration,
    has_unfinished_statement: bool,
    is_in_transaction: bool,
}

impl ConnectionLease {
    pub(super) fn new(postgres: PostgresPool, connection: PoolConnection<sqlx::Postgres>) -> Self {
        Self {
            statement_timeout: postgres.statement_timeout(),
            postgres,
            connection: Some(connection),
            has_unfinished_statement: false,
            is_in_transaction: false,
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
        values: Vec<SqlValue>,
    ) -> sqlx::Result<u64> {
        let (statement_timeout, connection) = self.begin_statement()?;
        let execution = value::bind_postgres(sql, values).execute(&mut **connection);
        let outcome = timeout(statement_timeout, execution).await;
        self.end_statement(outcome)
            .map(|result| result.rows_affected())
    }

    /// Runs a query within the statement timeout, and returns its rows.
    pub(super) async fn read(
        &mut self,
        sql: impl SqlSafeStr,
        values: Vec<SqlValue>,
    ) -> sqlx::Result<Vec<PgRow>> {
        let (statement_timeout, connection) = self.begin_statement()?;
        let execution = value::bind_postgres(sql, values).fetch_all(&mut **connection);
        let outcome = timeout(statement_timeout, execution).await;
        self.end_statement(outcome)
    }

    /// Runs several statements, none of which has parameters.
    pub(super) async fn run_script(&mut self, sql: impl SqlSafeStr) -> sqlx::Result<()> {
        let (statement_timeout, connection) = self.begin_statement()?;
        let execution = (&mut **connection).execute(sqlx::raw_sql(sql));
        let outcome = timeout(statement_timeout, execution).await;
        self.end_statement(outcome).map(drop)
    }

    /// Begins a transaction, which is rolled back if the lease is dropped before the commit.
    pub(super) async fn begin(mut self) -> sqlx::Result<Self> {
        self.run_script("BEGIN").await?;
        self.is_in_transaction = true;
        Ok(self)
    }

    pub(super) async fn commit(mut self) -> sqlx::Result<()> {
        self.run_script("COMMIT").await?;
        self.is_in_transaction = false;
        Ok(())
    }

    fn begin_statement(&mut self) -> sqlx::Result<(Duration, &mut PoolConnection<sqlx::Postgres>)> {
        let connection = self.connection.as_mut().ok_or_else(unresponsive_error)?;
        self.has_unfinished_statement = true;
        Ok((self.statement_timeout, connection))
    }

    fn end_statement<T>(&mut self, outcome: Result<sqlx::Result<T>, Elapsed>) -> sqlx::Result<T> {
        let Ok(result) = outcome else {
            self.connection.take().map(PoolConnection::detach);
            // The idle connections of the pool are closed, too, because they lead to the same
            // unresponsive server.
            self.postgres.close_idle();
            return Err(unresponsive_error());
        };
        self.has_unfinished_statement = false;
        result
    }
}

impl Drop for ConnectionLease {
    fn drop(&mut self) {
        let Some(mut connection) = self.connection.take() else {
            return;
        };
        if self.has_unfinished_statement {
            drop(connection.detach());
            return;
        }
        let statement_timeout = self.postgres.statement_timeout();
        let home_runtime = self.postgres.home_runtime();
        if !self.is_in_transaction {
            let return_to_pool = connection.return_to_pool();
            // Returning a connection to the pool pings the server. If the server does not respond
            // within the timeout, the connection is dropped.
            home_runtime.spawn(async move { timeout(statement_timeout, return_to_pool).await });
            return;
        }
        home_runtime.spawn(async move {
            let rollback_outcome =
                timeout(statement_timeout, (&mut *connection).execute("ROLLBACK")).await;
            if let Ok(Ok(_)) = rollback_outcome {
                let _ = timeout(statement_timeout, connection.return_to_pool()).await;
            } else {
                drop(connection.detach());
            }
        });
    }
}

fn unresponsive_error() -> sqlx::Error {
    let message = "Postgres did not respond within the statement timeout";
    io::Error::new(io::ErrorKind::TimedOut, message).into()
}
