use pillion_core::store::StoreError;

use crate::calls::CallWriter;
use crate::database::Database;
use crate::migrations;
use crate::options::{StoreLocation, StoreOptions};

/// Everything that must outlive a crash, in SQLite or Postgres: all traits of
/// [`pillion_core::store`].
#[derive(Debug)]
pub struct SqlStore {
    pub(crate) database: Database,
    pub(crate) call_writer: CallWriter,
}

impl SqlStore {
    /// Opens the store, making it or bringing its schema up to date where needed. Needs a
    /// running tokio runtime.
    ///
    /// # Errors
    /// `unavailable` when it cannot be opened for writing; `corrupt` when it is damaged, is no
    /// store at all, or was made by a newer program.
    pub async fn open(options: &StoreOptions) -> Result<Self, StoreError> {
        let database = Database::open(options).await?;
        migrations::migrate(&database).await?;
        let call_writer = CallWriter::start(database.clone());
        Ok(Self {
            database,
            call_writer,
        })
    }

    /// Opens a store that is there already, as it is: nothing is made, and its schema stays
    /// what it is. For whoever looks at a store; what it reads may need [`open`](Self::open).
    ///
    /// # Errors
    /// `not_found` when there is none; `corrupt` when what is there is no store, or was made
    /// by a newer program; `unavailable` when it cannot be opened.
    pub async fn open_existing(options: &StoreOptions) -> Result<Self, StoreError> {
        if let StoreLocation::File(path) = &options.location {
            let is_there = path.try_exists().map_err(|error| {
                let message = format!("the store '{}' cannot be found: {error}", path.display());
                StoreError::unavailable(message).with_source(error)
            })?;
            if !is_there {
                let message = format!("there is no store '{}'", path.display());
                return Err(StoreError::not_found(message));
            }
        }
        let database = Database::open(options).await?;
        migrations::present(&database).await?;
        let call_writer = CallWriter::start(database.clone());
        Ok(Self {
            database,
            call_writer,
        })
    }

    /// Which schema this store has; 0 is none yet.
    ///
    /// # Errors
    /// As [`open_existing`](Self::open_existing).
    pub async fn schema(&self) -> Result<i64, StoreError> {
        migrations::present(&self.database).await
    }

    /// Which schema the stores of this program have.
    #[must_use]
    pub fn schema_number() -> i64 {
        migrations::NEWEST
    }

    /// Writes what is waiting and closes every connection; whatever comes later is
    /// `unavailable`. A store that is dropped instead loses nothing that it has acknowledged.
    pub async fn close(&self) {
        self.call_writer.finish().await;
        self.database.close().await;
    }
}
