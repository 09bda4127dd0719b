use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use pillion_core::store::{StoreError, StoreErrorKind};
use tokio::time::timeout;

use crate::calls::{CallSpool, CallWriter, RecordsOnTheWay, recover};
use crate::database::Database;
use crate::migrations;
use crate::options::{Durability, StoreLocation, StoreOptions};

/// How long a Postgres may take to hear that this was all.
const CLOSE: Duration = Duration::from_secs(10);

/// Everything that must outlive a crash, in SQLite or Postgres: all traits of
/// [`pillion_core::store`].
#[derive(Debug)]
pub struct SqlStore {
    pub(crate) database: Database,
    pub(crate) call_writer: CallWriter,
    /// For a file whose writes need not survive the loss of power.
    pub(crate) call_spool: Option<CallSpool>,
    /// Where it is, if it is a file with the schema that this program writes.
    pub(crate) file: Option<PathBuf>,
    /// Why the last record of a call could not be written, if it could not.
    failure: Mutex<Option<String>>,
    /// Whether there is one: a record that is written takes no lock.
    has_failed: AtomicBool,
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
        Self::start(database, options).await
    }

    /// Opens a store that is there already, with the schema that it has. For whoever looks at
    /// a store; what it reads may need [`open`](Self::open).
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
        let is_current = migrations::present(&database).await? == migrations::NEWEST;
        let file = match &options.location {
            StoreLocation::File(path) if is_current => Some(path.clone()),
            _ => None,
        };
        if let Some(file) = &file
            && let Err(error) = recover(file, &database).await
        {
            tracing::warn!(%error, "Recorded calls stay beside the store");
        }
        Ok(Self::of(database, None, file))
    }

    /// With what processes that were killed have left to be written.
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

    /// The outcome of recording a call, remembered for [`recording_failure`](Self::recording_failure).
    pub(crate) fn noted(&self, outcome: Result<(), StoreError>) -> Result<(), StoreError> {
        match &outcome {
            Err(error) if error.kind() == StoreErrorKind::Unavailable => {
                *self.failure.lock() = Some(error.to_string());
                self.has_failed.store(true, Ordering::Relaxed);
            }
            // A record that cannot be says nothing of the store.
            Err(_) => {}
            // The ends of calls are recorded while new calls cannot begin.
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

    /// Why the last record of a call could not be written, if it could not.
    #[must_use]
    pub fn recording_failure(&self) -> Option<String> {
        self.failure.lock().clone()
    }

    /// Returns why an open store cannot be used, if its file was deleted or replaced. Asks the file
    /// system, not the database.
    #[must_use]
    pub fn file_failure(&self) -> Option<String> {
        let checked = self.database.check_placement();
        checked.err().map(|error| error.to_string())
    }

    /// Waits until every call that this process recorded can be read.
    ///
    /// # Errors
    /// `unavailable` while the database cannot be written.
    pub(crate) async fn catch_up(&self) -> Result<(), StoreError> {
        match &self.call_spool {
            Some(spool) => spool.catch_up().await,
            None => Ok(()),
        }
    }

    /// As [`catch_up`](Self::catch_up), for whoever is content with what there is while the
    /// database cannot be written.
    pub(crate) async fn catch_up_if_possible(&self) {
        if self.is_stuck() {
            return;
        }
        if let Err(error) = self.catch_up().await {
            tracing::debug!(%error, "Recorded calls are not in the database yet");
        }
    }

    /// As [`catch_up`](Self::catch_up), with the calls of processes that have ended since this
    /// one began: before it is said what became of theirs.
    pub(crate) async fn catch_up_with_the_dead(&self) -> Result<(), StoreError> {
        self.catch_up().await?;
        match &self.file {
            Some(file) => recover(file, &self.database).await,
            None => Ok(()),
        }
    }

    /// As [`catch_up`](Self::catch_up), with the calls of every process that has the same file.
    ///
    /// # Errors
    /// `unavailable`.
    pub(crate) async fn catch_up_with_all(&self) -> Result<(), StoreError> {
        self.catch_up().await?;
        match &self.file {
            Some(file) => {
                let others = RecordsOnTheWay::beside(file)?;
                others.write_into(&self.database).await
            }
            None => Ok(()),
        }
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
    /// `unavailable`. A store that is dropped instead loses nothing that it has acknowledged. A
    /// Postgres that does not answer is waited for no longer than 10 s.
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
                if timeout(CLOSE, closing).await.is_err() {
                    tracing::warn!("The store does not answer; it is left as it is");
                }
            }
        }
    }
}
