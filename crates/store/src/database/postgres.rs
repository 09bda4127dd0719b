use std::str::FromStr;
use std::time::Duration;

use pillion_core::store::StoreError;
use secrecy::{ExposeSecret, SecretString};
use sqlx::ConnectOptions;
use sqlx::PgPool;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use tokio::runtime::Handle;
use tracing::subscriber::{NoSubscriber, with_default};

use super::{Database, Lease, translate};
use crate::options::StoreOptions;

/// Timeout of the attempt that finds the reason of a failed connection.
const DIAGNOSIS_TIMEOUT: Duration = Duration::from_secs(1);

pub(super) async fn open(
    url: &SecretString,
    options: &StoreOptions,
) -> Result<Database, StoreError> {
    // Without a subscriber, because sqlx logs the lines of the password file that it cannot parse.
    let parsed = with_default(NoSubscriber::new(), || {
        PgConnectOptions::from_str(url.expose_secret())
    });
    let connect = parsed
        .map_err(|_| StoreError::invalid("the URL of the Postgres database is not a valid URL"))?
        .application_name("pillion")
        .options([
            ("lock_timeout", milliseconds(options.busy_timeout)),
            // Without a timeout, the locks of a client that has vanished would block all other
            // clients.
            (
                "idle_in_transaction_session_timeout",
                milliseconds(options.statement_timeout),
            ),
        ])
        .disable_statement_logging();
    let connecting = PgPoolOptions::new()
        .max_connections(options.connections.max(2))
        .acquire_timeout(options.busy_timeout)
        .connect_with(connect.clone());
    let pool = match connecting.await {
        Ok(pool) => pool,
        Err(error) => return Err(cannot_open(&connect, error).await),
    };
    Ok(Database::Postgres(Postgres {
        pool,
        home: Handle::current(),
        statement_timeout: options.statement_timeout,
    }))
}

/// Creates an error that names the server, but not the user.
async fn cannot_open(connect: &PgConnectOptions, error: sqlx::Error) -> StoreError {
    // The pool retries until its timeout and does not report the reason of the failure, so one more
    // attempt finds the reason.
    let error = match error {
        sqlx::Error::PoolTimedOut => {
            match tokio::time::timeout(DIAGNOSIS_TIMEOUT, connect.connect()).await {
                Ok(Err(error)) => error,
                Ok(Ok(_)) | Err(_) => error,
            }
        }
        error => error,
    };
    let address = match connect.get_socket() {
        Some(directory) => directory.display().to_string(),
        None => format!("{}:{}", connect.get_host(), connect.get_port()),
    };
    let io = match &error {
        sqlx::Error::Io(io) => Some(io.to_string()),
        _ => None,
    };
    let error = translate(error);
    let why = io.unwrap_or_else(|| error.to_string());
    let message = format!("the store in Postgres at {address} cannot be opened: {why}");
    StoreError::new(error.kind(), message)
}

/// The pool of connections, and the runtime that drives them.
///
/// The runtime that opened a connection drives the connection, but the pool gives the connection to
/// tasks of any runtime. If tasks of other runtimes opened connections, later queries could wait
/// for a busy thread of such a runtime, or fail after the runtime has ended. Therefore only one
/// runtime opens connections.
#[derive(Debug, Clone)]
pub(crate) struct Postgres {
    pool: PgPool,
    home: Handle,
    statement_timeout: Duration,
}

impl Postgres {
    /// Runs `work` with a connection, on the runtime that opens the connections. If the caller runs
    /// on another runtime, `work` continues when this future is dropped.
    pub(super) async fn on_home_runtime<T, W>(
        &self,
        work: impl FnOnce(Lease) -> W + Send + 'static,
    ) -> sqlx::Result<T>
    where
        T: Send + 'static,
        W: Future<Output = sqlx::Result<T>> + Send + 'static,
    {
        let this = self.clone();
        let work = async move { work(this.lease().await?).await };
        if Handle::current().id() == self.home.id() {
            return work.await;
        }
        let done = self.home.spawn(work).await;
        // The runtime of the pool has ended, so the store is closed.
        done.unwrap_or(Err(sqlx::Error::PoolClosed))
    }

    async fn lease(&self) -> sqlx::Result<Lease> {
        let acquired = self.pool.acquire().await;
        if let Err(sqlx::Error::PoolTimedOut) = acquired {
            // The other idle connections would take as long to fail, so they are closed.
            self.close_idle();
        }
        Ok(Lease::new(self.clone(), acquired?))
    }

    pub(super) fn statement_timeout(&self) -> Duration {
        self.statement_timeout
    }

    pub(super) fn home(&self) -> &Handle {
        &self.home
    }

    /// Closes the idle connections, which lead to a server that no longer responds.
    pub(super) fn close_idle(&self) {
        while let Some(idle) = self.pool.try_acquire() {
            drop(idle.detach());
        }
    }

    pub(super) async fn close(&self) {
        self.pool.close().await;
    }
}

fn milliseconds(limit: Duration) -> String {
    // A value of 0 would mean no timeout.
    limit.as_millis().max(1).to_string()
}
