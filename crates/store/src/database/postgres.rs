use std::str::FromStr;
use std::time::Duration;

use pillion_core::store::StoreError;
use secrecy::{ExposeSecret, SecretString};
use sqlx::ConnectOptions;
use sqlx::PgPool;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use tokio::runtime::Handle;

use super::{Database, translate};
use crate::options::StoreOptions;

pub(super) async fn open(
    url: &SecretString,
    options: &StoreOptions,
) -> Result<Database, StoreError> {
    let connect = PgConnectOptions::from_str(url.expose_secret())
        .map_err(|_| StoreError::invalid("the URL of the Postgres database is not one"))?
        .application_name("pillion")
        .options([("lock_timeout", lock_timeout(options.busy_timeout))])
        .disable_statement_logging();
    let pool = PgPoolOptions::new()
        .max_connections(options.connections.max(2))
        .acquire_timeout(options.busy_timeout)
        .connect_with(connect)
        .await
        .map_err(translate)?;
    Ok(Database::Postgres(Postgres {
        pool,
        home: Handle::current(),
    }))
}

/// The connections, and the runtime that drives them.
///
/// A connection is driven by the runtime that opened it, and the pool hands it to anybody. If
/// anybody opened some, their queries would wait for a thread that has something else to do, and
/// fail once it has gone.
#[derive(Debug, Clone)]
pub(crate) struct Postgres {
    pool: PgPool,
    home: Handle,
}

impl Postgres {
    /// Does what may open a connection, where they are opened. It goes on when this is dropped.
    pub(super) async fn at_home<T, W>(&self, work: impl FnOnce(PgPool) -> W) -> sqlx::Result<T>
    where
        T: Send + 'static,
        W: Future<Output = sqlx::Result<T>> + Send + 'static,
    {
        let work = work(self.pool.clone());
        if Handle::current().id() == self.home.id() {
            return work.await;
        }
        let done = self.home.spawn(work).await;
        // That runtime has ended, and the store with it.
        done.unwrap_or(Err(sqlx::Error::PoolClosed))
    }

    pub(super) async fn close(&self) {
        self.pool.close().await;
    }
}

fn lock_timeout(busy: Duration) -> String {
    // 0 would mean to wait for ever.
    busy.as_millis().max(1).to_string()
}
