//! The database schema, as numbered migrations.

use std::time::Duration;

use pillion_core::store::{StoreError, Timestamp};

use crate::Result;
use crate::database::{Database, Row, Transaction};

/// A migration; SQLite and Postgres run the same SQL. A released migration is never changed.
#[derive(Clone, Copy)]
struct Migration {
    number: i64,
    name: &'static str,
    sql: &'static str,
}

const MIGRATIONS: &[Migration] = &[Migration {
    number: 1,
    name: "initial",
    sql: include_str!("migrations/0001_initial.sql"),
}];

/// The schema version that this program requires.
pub(crate) const LATEST_VERSION: i64 = latest_version(MIGRATIONS);

/// The timeout of a migration in Postgres, which may have to rewrite all rows.
const MIGRATION_TIMEOUT: Duration = Duration::from_secs(600);

/// Number of attempts to begin a migration while another process may be migrating the store.
const MAX_ATTEMPTS: u32 = 3;

const CURRENT_VERSION_SQL: &str = "SELECT MAX(number) AS number FROM pillion_schema";

const fn latest_version(migrations: &[Migration]) -> i64 {
    migrations[migrations.len() - 1].number
}

/// Returns the schema version of a store. Fails if no migration has run yet.
pub(crate) async fn read_current_version(database: &Database) -> Result<i64> {
    let rows = database
        .read(CURRENT_VERSION_SQL, vec![])
        .await
        .map_err(|error| {
            if error.is_unavailable() {
                return error;
            }
            StoreError::corrupt("the database is not a Pillion store").with_source(error)
        })?;
    check_version(&rows, LATEST_VERSION)
}

/// Returns the schema version from the rows of a query. Fails if the version is greater than
/// `max_version`.
fn check_version(rows: &[Row], max_version: i64) -> Result<i64> {
    let schema_version = match rows.first() {
        Some(row) => row.optional_integer("number")?.unwrap_or(0),
        None => 0,
    };
    if schema_version > max_version {
        return Err(StoreError::corrupt(format!(
            "the store was created by a newer version of Pillion: its schema is {schema_version}, \
            and this version supports schemas up to {max_version}"
        )));
    }
    Ok(schema_version)
}

/// Begins the transaction of a migration. Retries, because another process may be migrating the
/// store, which takes longer than other writes.
async fn begin_with_retries(database: &Database) -> Result<Transaction> {
    for _ in 1..MAX_ATTEMPTS {
        match database.begin().await {
            Err(error) if error.is_unavailable() => {}
            outcome => return outcome,
        }
    }
    database.begin().await
}

/// Runs the missing migrations in one transaction.
pub(crate) async fn migrate(database: &Database) -> Result<()> {
    apply(database, MIGRATIONS).await
}

async fn apply(database: &Database, migrations: &[Migration]) -> Result<()> {
    let mut transaction = begin_with_retries(database).await?;
    transaction.set_statement_timeout(MIGRATION_TIMEOUT);
    if let Transaction::Postgres(_) = transaction {
        // A lock ensures that only one of several processes that start at the same time runs the
        // migrations. The number of the lock is specific to Pillion ("pill" in ASCII).
        transaction
            .run_script("SELECT pg_advisory_xact_lock(1885957228)")
            .await?;
    }
    transaction
        .run_script(
            "CREATE TABLE IF NOT EXISTS pillion_schema \
             (number BIGINT PRIMARY KEY, name TEXT NOT NULL, applied_at BIGINT NOT NULL)",
        )
        .await?;
    let rows = transaction.read(CURRENT_VERSION_SQL, vec![]).await?;
    let schema_version = check_version(&rows, latest_version(migrations))?;
    for migration in migrations
        .iter()
        .filter(|migration| migration.number > schema_version)
    {
        transaction.run_script(migration.sql).await?;
        transaction
            .write(
                "INSERT INTO pillion_schema (number, name, applied_at) VALUES ($1, $2, $3)",
                vec![
                    migration.number.into(),
                    migration.name.into(),
                    Timestamp::now().into(),
                ],
            )
            .await?;
    }
    transaction.commit().await
}

#[cfg(test)]
mod tests {
    use pillion_testkit::Postgres;

    use super::*;
    use crate::options::{StoreLocation, StoreOptions};

    fn color_migration(sql: &'static str) -> Migration {
        Migration {
            number: 2,
            name: "colors",
            sql,
        }
    }

    async fn applied_names(database: &Database) -> Vec<String> {
        let sql = "SELECT name FROM pillion_schema ORDER BY number";
        let rows = database.read(sql, vec![]).await.unwrap();
        rows.iter().map(|row| row.text("name").unwrap()).collect()
    }

    /// Migrates a store that has the first migration and data, with a second migration that fails
    /// halfway in the first attempt.
    async fn second_migration_is_all_or_nothing(options: &StoreOptions) {
        let database = Database::open(options).await.unwrap();
        migrate(&database).await.unwrap();
        let setting = "INSERT INTO settings (name, json) VALUES ('a', '1')";
        database.write(setting, vec![]).await.unwrap();

        let failing_migration = color_migration(
            "ALTER TABLE settings ADD COLUMN color TEXT; DROP TABLE memories; SELECT * FROM none",
        );
        apply(&database, &[MIGRATIONS[0], failing_migration])
            .await
            .unwrap_err();
        assert_eq!(applied_names(&database).await, ["initial"]);
        let count_sql = "SELECT COUNT(*) AS number FROM memories";
        database.read(count_sql, vec![]).await.unwrap();

        let second_migration =
            color_migration("ALTER TABLE settings ADD COLUMN color TEXT NOT NULL DEFAULT 'red'");
        let migrations = [MIGRATIONS[0], second_migration];
        for _ in 0..2 {
            apply(&database, &migrations).await.unwrap();
            assert_eq!(applied_names(&database).await, ["initial", "colors"]);
        }
        let sql = "SELECT json, color FROM settings";
        let row = database.read_one(sql, vec![]).await.unwrap().unwrap();
        assert_eq!(row.text("json").unwrap(), "1");
        assert_eq!(row.text("color").unwrap(), "red");

        // The schema of the store is now newer than the program.
        for outcome in [
            migrate(&database).await,
            read_current_version(&database).await.map(drop),
        ] {
            let error = outcome.unwrap_err();
            assert!(error.is_corrupt(), "{error:?}");
            let versions = "its schema is 2, and this version supports schemas up to 1";
            assert!(error.to_string().ends_with(versions), "{error}");
        }
        assert_eq!(applied_names(&database).await, ["initial", "colors"]);
        database.close().await;
    }

    #[tokio::test]
    async fn a_second_migration_is_all_or_nothing_in_sqlite() {
        second_migration_is_all_or_nothing(&StoreOptions::new(StoreLocation::Memory)).await;
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("pillion.db");
        second_migration_is_all_or_nothing(&StoreOptions::at_file(file)).await;
    }

    #[tokio::test]
    async fn a_second_migration_is_all_or_nothing_in_postgres() {
        let Some(postgres) = Postgres::start() else {
            return;
        };
        let url = postgres.database("migrations").parse().unwrap();
        second_migration_is_all_or_nothing(&StoreOptions::new(url)).await;
    }
}
