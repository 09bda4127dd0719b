use std::str::FromStr;
use std::time::Duration;

use pillion_core::store::StoreError;
use secrecy::{ExposeSecret, SecretString};
use sqlx::ConnectOptions;
use sqlx::PgPool;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use tokio::runtime::Handle;
use tracing::subscriber::{NoSubscriber, with_default};

use super::{ConnectionLease, Database, translate};
use crate::Result;
use crate::options::StoreOptions;

/// Timeout of the additional connection attempt that determines why connecting failed.
const DIAGNOSIS_TIMEOUT: Duration = Duration::from_secs(1);

pub(super) async fn open(url: &SecretString, options: &StoreOptions) -> Result<Database> {
    // The URL is parsed without a log subscriber, because sqlx logs the lines of the password file
    // that it cannot parse.
    let parse_result = with_default(NoSubscriber::new(), || {
        PgConnectOptions::from_str(url.expose_secret())
    });
    let connect_options = parse_result
        .map_err(|_| StoreError::invalid("the URL of the Postgres database is not a valid URL"))?
        .application_name("pillion")
        .options([
            ("lock_timeout", to_milliseconds(options.busy_timeout)),
            // Idle transactions have a timeout, because the locks of a client that has vanished
            // would otherwise block all other clients.
            (
                "idle_in_transaction_session_timeout",
                to_milliseconds(options.statement_timeout),
            ),
        ])
        .disable_statement_logging();
    let pool_future = PgPoolOptions::new()
        .max_connections(options.connections.max(2))
        .acquire_timeout(options.busy_timeout)
        .connect_with(connect_options.clone());
    let pool = match pool_future.await {
        Ok(pool) => pool,
        Err(error) => return Err(explain_open_error(&connect_options, error).await),
    };
    Ok(Database::Postgres(PostgresPool {
        pool,
        home_runtime: Handle::current(),
        statement_timeout: options.statement_timeout,
    }))
}

/// Creates an error that names the server, but not the user.
async fn explain_open_error(options: &PgConnectOptions, pool_error: sqlx::Error) -> StoreError {
    // The pool retries until its timeout and does not report the reason for the failure, so one
    // more attempt determines the reason.
    let cause = match pool_error {
        sqlx::Error::PoolTimedOut => {
            match tokio::time::timeout(DIAGNOSIS_TIMEOUT, options.connect()).await {
                Ok(Err(error)) => error,
                Ok(Ok(_)) | Err(_) => pool_error,
            }
        }
        error => error,
    };
    let address = match options.get_socket() {
        Some(directory) => directory.display().to_string(),
        None => format!("{}:{}", options.get_host(), options.get_port()),
    };
    let address_message = match &cause {
        sqlx::Error::Io(error) => Some(error.to_string()),
        _ => None,
    };
    let error = translate(cause);
    let reason = address_message.unwrap_or_else(|| error.to_string());
    let message = format!("the store in Postgres at {address} cannot be opened: {reason}");
    StoreError::new(error.kind(), message)
}

/// The pool of connections, and the runtime that opens them.
///
/// A connection makes progress only on the runtime that opened it, but the pool gives the
/// connection to tasks of any runtime. If tasks of other runtimes opened connections, later queries
/// could wait for a busy thread of such a runtime, or fail after the runtime has ended. Therefore
/// only one runtime opens connections.
#[derive(Debug, Clone)]
pub(crate) struct PostgresPool {
    pool: PgPool,
    home_runtime: Handle,
    statement_timeout: Duration,
}

impl PostgresPool {
    /// Runs `operation` with a connection, on the runtime that opens the connections. If the caller
    /// runs on another runtime, `operation` continues even if this future is dropped.
    pub(super) async fn run_on_home_runtime<T, W>(
        &self,
        operation: impl FnOnce(ConnectionLease) -> W + Send + 'static,
    ) -> sqlx::Result<T>
    where
        T: Send + 'static,
        W: Future<Output = sqlx::Result<T>> + Send + 'static,
    {
        let postgres = self.clone();
        let task = async move { operation(postgres.acquire_lease().await?).await };
        if Handle::current().id() == self.home_runtime.id() {
            return task.await;
        }
        let outcome = self.home_runtime.spawn(task).await;
        // The task fails only if the runtime of the pool has ended, which means that the store is
        // closed.
        outcome.unwrap_or(Err(sqlx::Error::PoolClosed))
    }

    async fn acquire_lease(&self) -> sqlx::Result<ConnectionLease> {
        let outcome = self.pool.acquire().await;
        if let Err(sqlx::Error::PoolTimedOut) = outcome {
            // Closes the idle connections, because they would also fail only after a timeout.
            self.close_idle();
        }
        Ok(ConnectionLease::new(self.clone(), outcome?))
    }

    pub(super) fn statement_timeout(&self) -> Duration {
        self.statement_timeout
    }

    pub(super) fn home_runtime(&self) -> &Handle {
        &self.home_runtime
    }

    /// Closes the idle connections, which lead to a server that no longer responds.
    pub(super) fn close_idle(&self) {
        while let Some(connection) = self.pool.try_acquire() {
            drop(connection.detach());
        }
    }

    pub(super) async fn close(&self) {
        self.pool.close().await;
    }
}

fn to_milliseconds(timeout: Duration) -> String {
    // The number is at least 1, because Postgres treats a timeout of 0 as no timeout.
    timeout.as_millis().max(1).to_string()
}
