use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use pillion_core::store::{StoreError, StoreErrorKind};
use tokio::time::timeout;

use crate::calls::{CallSpool, CallWriter, PendingRecords, recover};
use crate::database::Database;
use crate::migrations;
use crate::options::{Durability, StoreLocation, StoreOptions};

/// How long closing a Postgres store may take.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(10);

/// The store in SQLite or Postgres. Implements all traits of [`pillion_core::store`].
#[derive(Debug)]
pub struct SqlStore {
    pub(crate) database: Database,
    pub(crate) call_writer: CallWriter,
    /// The spool of call records; only for an SQLite file without the durability for power
    /// failures.
    pub(crate) call_spool: Option<CallSpool>,
    /// The path of the SQLite file, if it has the current schema.
    pub(crate) file: Option<PathBuf>,
    /// Why the last write of a call record failed, if it failed.
    failure: Mutex<Option<String>>,
    /// Whether `failure` is set, so that a successful write needs no lock.
    has_failed: AtomicBool,
}

impl SqlStore {
    /// Opens the store; creates the store or migrates its schema if necessary. Requires a running
    /// tokio runtime.
    ///
    /// # Errors
    /// `unavailable` if the store cannot be opened for writing; `corrupt` if it is damaged, is not
    /// a store, or was created by a newer program.
    pub async fn open(options: &StoreOptions) -> Result<Self, StoreError> {
        let database = Database::open(options).await?;
        migrations::migrate(&database).await?;
        Self::start(database, options).await
    }

    /// Opens an existing store for inspection, without a migration. Some reads fail until
    /// [`open`](Self::open) has migrated the store.
    ///
    /// # Errors
    /// `not_found` if the store does not exist; `corrupt` if it is not a store, or was created by a
    /// newer program; `unavailable` if it cannot be opened.
    pub async fn open_existing(options: &StoreOptions) -> Result<Self, StoreError> {
        if let StoreLocation::File(path) = &options.location {
            let is_there = path.try_exists().map_err(|error| {
                let message = format!("the store '{}' cannot be found: {error}", path.display());
                StoreError::unavailable(message).with_source(error)
            })?;
            if !is_there {
                let message = format!("the store '{}' does not exist", path.display());
                return Err(StoreError::not_found(message));
            }
        }
        let database = Database::open(options).await?;
        let is_current = migrations::present(&database).await? == migrations::LATEST_VERSION;
        let file = match &options.location {
            StoreLocation::File(path) if is_current => Some(path.clone()),
            _ => None,
        };
        if let Some(file) = &file
            && let Err(error) = recover(file, &database).await
        {
            tracing::warn!(
                %error,
                "Cannot write the recorded calls to the store; they stay in the files beside it"
            );
        }
        Ok(Self::of(database, None, file))
    }

    /// Starts the store, after writing the records that killed processes have left behind.
    async fn start(database: Database, options: &StoreOptions) -> Result<Self, StoreError> {
        let StoreLocation::File(path) = &options.location else {
            return Ok(Self::of(database, None, None));
        };
        recover(path, &database).await?;
        let spool = match options.durability {
            Durability::Process => Some(CallSpool::start(path, database.clone())?),
            Durability::PowerLoss => None,
        };
        Ok(Self::of(database, spool, Some(path.clone())))
    }

    fn of(database: Database, call_spool: Option<CallSpool>, file: Option<PathBuf>) -> Self {
        let call_writer = CallWriter::start(database.clone());
        Self {
            database,
            call_writer,
            call_spool,
            file,
            failure: Mutex::default(),
            has_failed: AtomicBool::new(false),
        }
    }

    /// Remembers the outcome of recording a call for
    /// [`recording_failure`](Self::recording_failure).
    pub(crate) fn noted(&self, outcome: Result<(), StoreError>) -> Result<(), StoreError> {
        match &outcome {
            Err(error) if error.kind() == StoreErrorKind::Unavailable => {
                *self.failure.lock() = Some(error.to_string());
                self.has_failed.store(true, Ordering::Relaxed);
            }
            // An invalid record says nothing about the store.
            Err(_) => {}
            // The ends of calls are still recorded while new calls cannot begin.
            Ok(()) if self.has_failed.load(Ordering::Relaxed) && !self.is_stuck() => {
                self.has_failed.store(false, Ordering::Relaxed);
                *self.failure.lock() = None;
            }
            Ok(()) => {}
        }
        outcome
    }

    /// Returns whether the last write to the database failed and records wait for it.
    fn is_stuck(&self) -> bool {
        self.call_spool.as_ref().is_some_and(CallSpool::is_stuck)
    }

    /// Returns why the last write of a call record failed, if it failed.
    #[must_use]
    pub fn recording_failure(&self) -> Option<String> {
        self.failure.lock().clone()
    }

    /// Returns why an open store cannot be used, if its file was deleted or replaced. Checks the
    /// file system, not the database.
    #[must_use]
    pub fn file_failure(&self) -> Option<String> {
        let checked = self.database.check_placement();
        checked.err().map(|error| error.to_string())
    }

    /// Waits until every call that this process recorded is in the database.
    pub(crate) async fn catch_up(&self) -> Result<(), StoreError> {
        match &self.call_spool {
            Some(spool) => spool.catch_up().await,
            None => Ok(()),
        }
    }

    /// Like [`catch_up`](Self::catch_up), but returns without the newest records if the database
    /// cannot be written.
    pub(crate) async fn catch_up_if_possible(&self) {
        if self.is_stuck() {
            return;
        }
        if let Err(error) = self.catch_up().await {
            tracing::debug!(%error, "Cannot write the recorded calls to the database yet");
        }
    }

    /// Like [`catch_up`](Self::catch_up), and also writes the records of processes that have ended
    /// since this process started. Required before deciding what became of their calls.
    pub(crate) async fn flush_ended_processes(&self) -> Result<(), StoreError> {
        self.catch_up().await?;
        match &self.file {
            Some(file) => recover(file, &self.database).await,
            None => Ok(()),
        }
    }

    /// Like [`catch_up`](Self::catch_up), and also writes the records of every process that uses
    /// the same file.
    pub(crate) async fn flush_all_processes(&self) -> Result<(), StoreError> {
        self.catch_up().await?;
        match &self.file {
            Some(file) => {
                let others = PendingRecords::beside(file)?;
                others.write_into(&self.database).await
            }
            None => Ok(()),
        }
    }

    /// Returns the version of the store's schema; 0 if the store has no schema yet.
    ///
    /// # Errors
    /// As [`open_existing`](Self::open_existing).
    pub async fn schema(&self) -> Result<i64, StoreError> {
        migrations::present(&self.database).await
    }

    /// Returns the schema version that this program requires.
    #[must_use]
    pub fn schema_number() -> i64 {
        migrations::LATEST_VERSION
    }

    /// Writes all pending records and closes all connections; later operations fail as
    /// `unavailable`. Dropping the store instead loses no committed write. Waits at most 10 s for
    /// an unresponsive Postgres.
    pub async fn close(&self) {
        if let Some(spool) = &self.call_spool {
            spool.finish().await;
        }
        let closing = async {
            self.call_writer.finish().await;
            self.database.close().await;
        };
        match self.database {
            Database::Sqlite { .. } => closing.await,
            Database::Postgres(_) => {
                if timeout(CLOSE_TIMEOUT, closing).await.is_err() {
                    tracing::warn!(
                        "The store does not respond; closed it without writing the remaining \
                        records"
                    );
                }
            }
        }
    }
}
