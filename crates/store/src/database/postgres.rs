use std::str::FromStr;
use std::time::Duration;

use pillion_core::store::StoreError;
use secrecy::{ExposeSecret, SecretString};
use sqlx::ConnectOptions;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

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
    Ok(Database::Postgres(pool))
}

fn lock_timeout(busy: Duration) -> String {
    // 0 would mean to wait for ever.
    busy.as_millis().max(1).to_string()
}
