use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use pillion_core::store::StoreError;
use tokio::time::timeout;

use crate::Result;
use crate::calls::{CallSpool, CallWriter, PendingRecords, list_files_with_records, recover};
use crate::clock::{ClockHistory, StoreClock};
use crate::database::{self, Database};
use crate::health::StoreHealth;
use crate::migrations;
use crate::options::{Durability, StoreLocation, StoreOptions};

/// Maximum time for which closing a Postgres store waits for the server.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(10);

/// The store in SQLite or Postgres. Implements all traits of [`pillion_core::store`].
#[derive(Debug)]
pub struct SqlStore {
    pub(crate) database: Database,
    pub(crate) call_writer: CallWriter,
    pub(crate) clock: StoreClock,
    /// The spool of call records. `None` if the store is not an SQLite file, or if its writes must
    /// survive power failures.
    pub(crate) call_spool: Option<CallSpool>,
    /// The path of the SQLite file; `None` for a store that is not a file, or if the file does not
    /// have the current schema.
    pub(crate) file: Option<PathBuf>,
    pub(crate) health: StoreHealth,
    lost_record_count: AtomicU64,
}

impl SqlStore {
    /// Opens the store; creates the store or migrates its schema if necessary. Requires a running
    /// tokio runtime.
    ///
    /// # Errors
    /// `unavailable` if the store cannot be opened for writing; `corrupt` if the store is damaged,
    /// is not a store, or was created by a newer program.
    pub async fn open(options: &StoreOptions) -> Result<Self> {
        let open_store = async {
            if let StoreLocation::File(path) = &options.location {
                check_not_emptied(path)?;
                database::check_disk(path)?;
            }
            let database = Database::open(options).await?;
            migrations::migrate(&database).await?;
            Box::pin(Self::start(database, options)).await
        };
        Box::pin(open_store)
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
    /// `not_found` if the store does not exist; `corrupt` if the file is not a store, or was
    /// created by a newer program; `unavailable` if the store cannot be opened.
    pub async fn open_existing(options: &StoreOptions) -> Result<Self> {
        if let StoreLocation::File(path) = &options.location {
            let exists = path.try_exists().map_err(|error| {
                let message = format!("the store '{}' cannot be found: {error}", path.display());
                StoreError::unavailable(message).with_source(error)
            })?;
            if !exists {
                let message = format!("the store '{}' does not exist", path.display());
                return Err(StoreError::not_found(message));
            }
            if is_empty_file(path) {
                let message = format!("the store '{}' is an empty file", path.display());
                return Err(StoreError::corrupt(message));
            }
        }
        let database = Box::pin(Database::open(options)).await?;
        let is_current =
            migrations::read_current_version(&database).await? == migrations::LATEST_VERSION;
        let file = match &options.location {
            StoreLocation::File(path) if is_current => Some(path.clone()),
            _ => None,
        };
        let clock = StoreClock::new(database.clone());
        let mut lost_record_count = 0;
        if let Some(file) = &file {
            match Box::pin(recover(file, &database, &clock)).await {
                Ok(record_count) => lost_record_count = record_count,
                Err(error) => tracing::warn!(
                    %error,
                    "Cannot write the recorded calls to the store: the calls stay in files beside \
                    the store"
                ),
            }
        }
        let store = Self::new(database, clock, None, file);
        store.add_lost_records(lost_record_count);
        Ok(store)
    }

    /// Writes the records of killed processes to the database, and then starts the store.
    async fn start(database: Database, options: &StoreOptions) -> Result<Self> {
        let clock = StoreClock::new(database.clone());
        let StoreLocation::File(path) = &options.location else {
            return Ok(Self::new(database, clock, None, None));
        };
        let lost_record_count = recover(path, &database, &clock).await?;
        let spool = match options.durability {
            Durability::Process => Some(CallSpool::start(path, database.clone(), clock.clone())?),
            Durability::PowerLoss => None,
        };
        let store = Self::new(database, clock, spool, Some(path.clone()));
        store.add_lost_records(lost_record_count);
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
            health: StoreHealth::default(),
            lost_record_count: AtomicU64::new(0),
        }
    }

    fn add_lost_records(&self, record_count: u64) {
        self.lost_record_count
            .fetch_add(record_count, Ordering::Relaxed);
    }

    /// Returns the number of call records that this store could not read from damaged spool files
    /// of ended processes.
    #[must_use]
    pub fn lost_records(&self) -> u64 {
        self.lost_record_count.load(Ordering::Relaxed)
    }

    /// Returns whether the last write to the database failed, so that records are still waiting to
    /// be written to the database.
    pub(crate) fn has_failed_write(&self) -> bool {
        self.call_spool
            .as_ref()
            .is_some_and(CallSpool::has_failed_write)
    }

    /// Returns an error message if the file of an open store was deleted or replaced, so that the
    /// store cannot be used; otherwise `None`. Only checks the file system, not the database.
    #[must_use]
    pub fn file_failure(&self) -> Option<String> {
        let check_result = self.database.check_files();
        check_result.err().map(|error| error.to_string())
    }

    /// Waits until every call that this process recorded is in the database.
    pub(crate) async fn catch_up(&self) -> Result<()> {
        match &self.call_spool {
            Some(spool) => spool.catch_up().await,
            None => Ok(()),
        }
    }

    /// Waits like [`catch_up`](Self::catch_up), but does not fail if the database cannot be
    /// written; the database then lacks the newest records.
    pub(crate) async fn catch_up_if_possible(&self) {
        if self.has_failed_write() {
            return;
        }
        if let Err(error) = self.catch_up().await {
            tracing::debug!(%error, "Cannot write the recorded calls to the database yet");
        }
    }

    /// Waits like [`catch_up`](Self::catch_up), and also writes the records of processes that have
    /// ended since this process started. Must be called before determining how the calls of these
    /// processes ended.
    pub(crate) async fn flush_ended_processes(&self) -> Result<()> {
        self.catch_up().await?;
        match &self.file {
            Some(file) => {
                let lost_record_count = recover(file, &self.database, &self.clock).await?;
                self.add_lost_records(lost_record_count);
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Waits like [`catch_up`](Self::catch_up), and also writes the records of every process that
    /// uses the store's file.
    pub(crate) async fn flush_all_processes(&self) -> Result<()> {
        self.catch_up().await?;
        match &self.file {
            Some(file) => {
                let pending_records = PendingRecords::for_database(file)?;
                pending_records
                    .write_into(&self.database, &self.clock)
                    .await
            }
            None => Ok(()),
        }
    }

    /// Stores a reading of the system clock, and returns the readings since the creation of the
    /// store, from which callers determine which records may be removed because of their age.
    ///
    /// # Errors
    /// `unavailable` if the reading cannot be stored.
    pub async fn record_clock_reading(&self) -> Result<ClockHistory> {
        self.clock.record_reading().await
    }

    /// Returns the version of the store's schema; 0 if the store has no schema yet.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn schema_version(&self) -> Result<i64> {
        migrations::read_current_version(&self.database).await
    }

    /// Returns the schema version that this program requires.
    #[must_use]
    pub fn required_schema_version() -> i64 {
        migrations::LATEST_VERSION
    }

    /// Writes all pending records and closes all connections; later operations fail as
    /// `unavailable`. If the store is dropped without calling this method, no committed write is
    /// lost. Waits at most 10 s for an unresponsive Postgres.
    pub async fn close(&self) {
        if let Some(spool) = &self.call_spool {
            spool.finish().await;
        }
        let close_connections = async {
            self.call_writer.finish().await;
            self.database.close().await;
        };
        match self.database {
            Database::Sqlite { .. } => close_connections.await,
            Database::Postgres(_) => {
                if timeout(CLOSE_TIMEOUT, close_connections).await.is_err() {
                    tracing::warn!(
                        "The store does not respond; closed it without writing the remaining \
                        records"
                    );
                }
            }
        }
    }
}

fn is_empty_file(path: &Path) -> bool {
    path.metadata()
        .is_ok_and(|file| file.is_file() && file.len() == 0)
}

/// Checks that a missing or empty database file belongs to a new store.
///
/// # Errors
/// `corrupt` if files beside the database file contain records, so that the database file was
/// removed or emptied.
fn check_not_emptied(path: &Path) -> Result<()> {
    let is_empty = is_empty_file(path);
    if !is_empty && path.exists() {
        return Ok(());
    }
    let mut log_path = path.as_os_str().to_owned();
    log_path.push("-wal");
    let mut record_files = match list_files_with_records(path) {
        Ok(files) => files,
        // If the directory does not exist, there are no files that could contain records.
        Err(_) => return Ok(()),
    };
    if Path::new(&log_path)
        .metadata()
        .is_ok_and(|metadata| metadata.len() > 0)
    {
        record_files.push(log_path.into());
    }
    let file_state = if is_empty { "empty" } else { "missing" };
    if !record_files.is_empty() {
        let names: Vec<_> = record_files
            .iter()
            .map(|path| format!("'{}'", path.display()))
            .collect();
        return Err(StoreError::corrupt(format!(
            "the store '{}' is {file_state}, but files beside it have its records: restore the \
            store, or remove {} to begin a new one",
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
    let (path_text, cause) = (path.display().to_string(), error.to_string());
    if cause.contains(&path_text) {
        return error;
    }
    let message = format!("the store '{path_text}' cannot be opened: {cause}");
    StoreError::new(error.kind(), message).with_source(error)
}
