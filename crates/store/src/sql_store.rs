use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use pillion_core::store::StoreError;
use tokio::time::timeout;

use crate::calls::{CallSpool, CallWriter, PendingRecords, files_with_records, recover};
use crate::clock::{ClockHistory, StoreClock};
use crate::database::{self, Database};
use crate::health::Health;
use crate::migrations;
use crate::options::{Durability, StoreLocation, StoreOptions};

/// Maximum time to close a Postgres store.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(10);

/// The store in SQLite or Postgres. Implements all traits of [`pillion_core::store`].
#[derive(Debug)]
pub struct SqlStore {
    pub(crate) database: Database,
    pub(crate) call_writer: CallWriter,
    pub(crate) clock: StoreClock,
    /// The spool of call records. `None` unless the store is an SQLite file without durability for
    /// power failures.
    pub(crate) call_spool: Option<CallSpool>,
    /// The path of the SQLite file; `None` if the file does not have the current schema.
    pub(crate) file: Option<PathBuf>,
    pub(crate) health: Health,
    lost_records: AtomicU64,
}

impl SqlStore {
    /// Opens the store; creates the store or migrates its schema if necessary. Requires a running
    /// tokio runtime.
    ///
    /// # Errors
    /// `unavailable` if the store cannot be opened for writing; `corrupt` if the store is damaged,
    /// is not a store, or was created by a newer program.
    pub async fn open(options: &StoreOptions) -> Result<Self, StoreError> {
        let opening = async {
            if let StoreLocation::File(path) = &options.location {
                check_not_emptied(path)?;
                database::try_disk(path)?;
            }
            let database = Database::open(options).await?;
            migrations::migrate(&database).await?;
            Box::pin(Self::start(database, options)).await
        };
        Box::pin(opening)
            .await
            .map_err(|error| match &options.location {
                StoreLocation::File(path) => with_path(path, error),
                StoreLocation::Memory | StoreLocation::Postgres(_) => error,
            })
    }

    /// Opens an existing store for inspection, without a migration. Some reads fail until
    /// [`open`](Self::open) has migrated the store.
    ///
    /// # Errors
    /// `not_found` if the store does not exist; `corrupt` if it is not a store, or was created by a
    /// newer program; `unavailable` if the store cannot be opened.
    pub async fn open_existing(options: &StoreOptions) -> Result<Self, StoreError> {
        if let StoreLocation::File(path) = &options.location {
            let exists = path.try_exists().map_err(|error| {
                let message = format!("the store '{}' cannot be found: {error}", path.display());
                StoreError::unavailable(message).with_source(error)
            })?;
            if !exists {
                let message = format!("the store '{}' does not exist", path.display());
                return Err(StoreError::not_found(message));
            }
            if is_empty(path) {
                let message = format!("the store '{}' is an empty file", path.display());
                return Err(StoreError::corrupt(message));
            }
        }
        let database = Box::pin(Database::open(options)).await?;
        let is_current =
            migrations::current_version(&database).await? == migrations::LATEST_VERSION;
        let file = match &options.location {
            StoreLocation::File(path) if is_current => Some(path.clone()),
            _ => None,
        };
        let clock = StoreClock::new(database.clone());
        let mut lost_records = 0;
        if let Some(file) = &file {
            match Box::pin(recover(file, &database, &clock)).await {
                Ok(lost) => lost_records = lost,
                Err(error) => tracing::warn!(
                    %error,
                    "Cannot write the recorded calls to the store; they stay in the files beside it"
                ),
            }
        }
        let store = Self::new(database, clock, None, file);
        store.add_lost_records(lost_records);
        Ok(store)
    }

    /// Starts the store, after writing the records of killed processes to the database.
    async fn start(database: Database, options: &StoreOptions) -> Result<Self, StoreError> {
        let clock = StoreClock::new(database.clone());
        let StoreLocation::File(path) = &options.location else {
            return Ok(Self::new(database, clock, None, None));
        };
        let lost_records = recover(path, &database, &clock).await?;
        let spool = match options.durability {
            Durability::Process => Some(CallSpool::start(path, database.clone(), clock.clone())?),
            Durability::PowerLoss => None,
        };
        let store = Self::new(database, clock, spool, Some(path.clone()));
        store.add_lost_records(lost_records);
        Ok(store)
    }

    fn new(
        database: Database,
        clock: StoreClock,
        call_spool: Option<CallSpool>,
        file: Option<PathBuf>,
    ) -> Self {
        let call_writer = CallWriter::start(database.clone(), clock.clone());
        Self {
            database,
            call_writer,
            clock,
            call_spool,
            file,
            health: Health::default(),
            lost_records: AtomicU64::new(0),
        }
    }

    fn add_lost_records(&self, lost: u64) {
        self.lost_records.fetch_add(lost, Ordering::Relaxed);
    }

    /// Returns the number of call records that this store could not read from damaged spool files
    /// of ended processes.
    #[must_use]
    pub fn lost_records(&self) -> u64 {
        self.lost_records.load(Ordering::Relaxed)
    }

    /// Returns whether the last write to the database failed, so that records wait for the
    /// database.
    pub(crate) fn is_stuck(&self) -> bool {
        self.call_spool.as_ref().is_some_and(CallSpool::is_stuck)
    }

    /// Returns why an open store cannot be used, if its file was deleted or replaced. Only checks
    /// the file system, not the database.
    #[must_use]
    pub fn file_failure(&self) -> Option<String> {
        let checked = self.database.check_files();
        checked.err().map(|error| error.to_string())
    }

    /// Waits until every call that this process recorded is in the database.
    pub(crate) async fn catch_up(&self) -> Result<(), StoreError> {
        match &self.call_spool {
            Some(spool) => spool.catch_up().await,
            None => Ok(()),
        }
    }

    /// Waits like [`catch_up`](Self::catch_up), but returns without the newest records if the
    /// database cannot be written.
    pub(crate) async fn catch_up_if_possible(&self) {
        if self.is_stuck() {
            return;
        }
        if let Err(error) = self.catch_up().await {
            tracing::debug!(%error, "Cannot write the recorded calls to the database yet");
        }
    }

    /// Waits like [`catch_up`](Self::catch_up), and also writes the records of processes that have
    /// ended since this process started. Required before deciding how the calls of these processes
    /// ended.
    pub(crate) async fn flush_ended_processes(&self) -> Result<(), StoreError> {
        self.catch_up().await?;
        match &self.file {
            Some(file) => {
                let lost = recover(file, &self.database, &self.clock).await?;
                self.add_lost_records(lost);
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Waits like [`catch_up`](Self::catch_up), and also writes the records of every process that
    /// uses the same file.
    pub(crate) async fn flush_all_processes(&self) -> Result<(), StoreError> {
        self.catch_up().await?;
        match &self.file {
            Some(file) => {
                let others = PendingRecords::for_database(file)?;
                others.write_into(&self.database, &self.clock).await
            }
            None => Ok(()),
        }
    }

    /// Stores a reading of the system clock, and returns the readings since the creation of the
    /// store, from which callers determine what may be removed.
    ///
    /// # Errors
    /// `unavailable` if the reading cannot be stored.
    pub async fn clock(&self) -> Result<ClockHistory, StoreError> {
        self.clock.read().await
    }

    /// Returns the version of the store's schema; 0 if the store has no schema yet.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn schema_version(&self) -> Result<i64, StoreError> {
        migrations::current_version(&self.database).await
    }

    /// Returns the schema version that this program requires.
    #[must_use]
    pub fn required_schema_version() -> i64 {
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

fn is_empty(path: &Path) -> bool {
    path.metadata()
        .is_ok_and(|file| file.is_file() && file.len() == 0)
}

/// Checks that a missing or empty database file belongs to a new store.
///
/// # Errors
/// `corrupt` if files beside the database file contain records, so that the database file was
/// removed or emptied.
fn check_not_emptied(path: &Path) -> Result<(), StoreError> {
    let is_empty = is_empty(path);
    if !is_empty && path.exists() {
        return Ok(());
    }
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    let mut records = match files_with_records(path) {
        Ok(records) => records,
        // The directory does not exist.
        Err(_) => return Ok(()),
    };
    if Path::new(&log).metadata().is_ok_and(|log| log.len() > 0) {
        records.push(log.into());
    }
    let state = if is_empty { "empty" } else { "missing" };
    if !records.is_empty() {
        let names: Vec<_> = records
            .iter()
            .map(|path| format!("'{}'", path.display()))
            .collect();
        return Err(StoreError::corrupt(format!(
            "the store '{}' is {state}, but files beside it have its records: restore the store, or \
            remove {} to begin a new one",
            path.display(),
            names.join(", ")
        )));
    }
    if is_empty {
        tracing::warn!(path = %path.display(), "The file of the store is empty: creating a new store");
    }
    Ok(())
}

/// Adds the path to an error whose message does not contain the path.
fn with_path(path: &Path, error: StoreError) -> StoreError {
    let (path, message) = (path.display().to_string(), error.to_string());
    if message.contains(&path) {
        return error;
    }
    let message = format!("the store '{path}' cannot be opened: {message}");
    StoreError::new(error.kind(), message).with_source(error)
}
