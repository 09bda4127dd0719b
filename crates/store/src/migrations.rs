//! The database schema, as numbered migrations.

use std::time::Duration;

use pillion_core::store::{StoreError, Timestamp};

use crate::database::{Database, Row, Transaction};

/// A migration; SQLite and Postgres run the same SQL. A released migration is never changed.
struct Migration {
    number: i64,
    name: &'static str,
    sql: &'static str,
}

const MIGRATIONS: [Migration; 13] = [
    Migration {
        number: 1,
        name: "initial",
        sql: include_str!("migrations/0001_initial.sql"),
    },
    Migration {
        number: 2,
        name: "reasons of decisions",
        sql: include_str!("migrations/0002_reasons.sql"),
    },
    Migration {
        number: 3,
        name: "pins of users",
        sql: include_str!("migrations/0003_pins_of_users.sql"),
    },
    Migration {
        number: 4,
        name: "composed tools",
        sql: include_str!("migrations/0004_composed_tools.sql"),
    },
    Migration {
        number: 5,
        name: "packs",
        sql: include_str!("migrations/0005_packs.sql"),
    },
    Migration {
        number: 6,
        name: "chats",
        sql: include_str!("migrations/0006_chats.sql"),
    },
    Migration {
        number: 7,
        name: "readers of memories",
        sql: include_str!("migrations/0007_readers_of_memories.sql"),
    },
    Migration {
        number: 8,
        name: "claims of chats",
        sql: include_str!("migrations/0008_claims_of_chats.sql"),
    },
    Migration {
        number: 9,
        name: "principals of calls",
        sql: include_str!("migrations/0009_principals_of_calls.sql"),
    },
    Migration {
        number: 10,
        name: "clock",
        sql: include_str!("migrations/0010_clock.sql"),
    },
    Migration {
        number: 11,
        name: "callers",
        sql: include_str!("migrations/0011_callers.sql"),
    },
    Migration {
        number: 12,
        name: "removed calls",
        sql: include_str!("migrations/0012_removed_calls.sql"),
    },
    Migration {
        number: 13,
        name: "repaired arguments",
        sql: include_str!("migrations/0013_repaired_arguments.sql"),
    },
];

/// The schema version that this program requires.
pub(crate) const LATEST_VERSION: i64 = MIGRATIONS[MIGRATIONS.len() - 1].number;

/// The timeout of a migration in Postgres, which may have to rewrite all rows.
const MIGRATION_TIMEOUT: Duration = Duration::from_secs(600);

/// Number of attempts to begin the migration.
const MAX_ATTEMPTS: u32 = 3;

const CURRENT_VERSION_SQL: &str = "SELECT MAX(number) AS number FROM pillion_schema";

/// Returns the schema version of a store; at least one migration must have run.
pub(crate) async fn present(database: &Database) -> Result<i64, StoreError> {
    let rows = database
        .read(CURRENT_VERSION_SQL, vec![])
        .await
        .map_err(|error| {
            if error.is_unavailable() {
                return error;
            }
            StoreError::corrupt("the database is not a Pillion store").with_source(error)
        })?;
    known(&rows)
}

/// Returns the schema version in the rows, if this program supports it.
fn known(rows: &[Row]) -> Result<i64, StoreError> {
    let present = match rows.first() {
        Some(row) => row.optional_integer("number")?.unwrap_or(0),
        None => 0,
    };
    if present > LATEST_VERSION {
        return Err(StoreError::corrupt(format!(
            "the store was created by a newer version of Pillion: its schema is {present}, and \
            this version supports schemas up to {LATEST_VERSION}"
        )));
    }
    Ok(present)
}

/// Begins the transaction. Another process may be migrating the store, which takes longer than
/// other writes.
async fn begin(database: &Database) -> Result<Transaction, StoreError> {
    for _ in 1..MAX_ATTEMPTS {
        match database.begin().await {
            Err(error) if error.is_unavailable() => {}
            begun => return begun,
        }
    }
    database.begin().await
}

/// Runs the missing migrations in one transaction.
pub(crate) async fn migrate(database: &Database) -> Result<(), StoreError> {
    let mut transaction = begin(database).await?;
    transaction.may_take(MIGRATION_TIMEOUT);
    if let Transaction::Postgres(_) = transaction {
        // Several processes may start at the same time. The lock number is specific to Pillion
        // ("pill" in ASCII).
        transaction
            .script("SELECT pg_advisory_xact_lock(1885957228)")
            .await?;
    }
    transaction
        .script(
            "CREATE TABLE IF NOT EXISTS pillion_schema \
             (number BIGINT PRIMARY KEY, name TEXT NOT NULL, applied_at BIGINT NOT NULL)",
        )
        .await?;
    let present = known(&transaction.read(CURRENT_VERSION_SQL, vec![]).await?)?;
    for step in MIGRATIONS.iter().filter(|step| step.number > present) {
        transaction.script(step.sql).await?;
        transaction
            .write(
                "INSERT INTO pillion_schema (number, name, applied_at) VALUES ($1, $2, $3)",
                vec![
                    step.number.into(),
                    step.name.into(),
                    Timestamp::now().into(),
                ],
            )
            .await?;
    }
    transaction.commit().await
}
