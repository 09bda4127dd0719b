use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use pillion_core::store::StoreError;
use sqlx::sqlite::{
    SqliteAutoVacuum, SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqlitePoolOptions,
    SqliteSynchronous,
};
use sqlx::{ConnectOptions, Error};

use super::{Database, DatabaseFiles, LockFailures, is_locked, translate};
use crate::Result;
use crate::options::{Durability, StoreOptions};

const PAGE_BYTES: u32 = 4_096;
/// Minimum timeout for getting a connection from the pool. Must not be too short, because the pool
/// may have to open the connection first.
const MIN_ACQUIRE_TIMEOUT: Duration = Duration::from_secs(2);

pub(super) async fn open_file(path: &Path, options: &StoreOptions) -> Result<Database> {
    create_file(path)?;
    let reader_options = build_connect_options(options).filename(path);
    let writer_options =
        configure_writer(reader_options.clone(), options).journal_mode(SqliteJournalMode::Wal);
    let to_open_error = |error| open_error(path, &translate(error));
    let writer = open_writer(&writer_options, options)
        .await
        .map_err(to_open_error)?;
    let readers = build_pool_options(options.connections.max(1), options)
        .min_connections(0)
        .connect_with(reader_options.pragma("query_only", "ON"))
        .await
        .map_err(to_open_error)?;
    let files = DatabaseFiles::open(path).map_err(|source| {
        let message = format!("the store '{}' cannot be found: {source}", path.display());
        StoreError::unavailable(message).with_source(source)
    })?;
    Ok(Database::Sqlite {
        writer,
        readers,
        lock_failures: LockFailures::default(),
        files: Some(files),
    })
}

/// Creates an error with the path and the cause, which SQLite's error does not contain.
fn open_error(path: &Path, error: &StoreError) -> StoreError {
    let message = match fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() => {
            format!("the store '{}' is a directory", path.display())
        }
        Err(cause) => format!("the store '{}' cannot be opened: {cause}", path.display()),
        Ok(_) => format!("the store '{}' cannot be opened: {error}", path.display()),
    };
    StoreError::new(error.kind(), message)
}

/// Opens the writing connection. If several processes open a new file at the same time, SQLite
/// immediately returns "locked" to all but one, without the busy timeout, because the change to WAL
/// mode is exclusive.
async fn open_writer(
    writer_options: &SqliteConnectOptions,
    options: &StoreOptions,
) -> Result<SqlitePool, Error> {
    let deadline = Instant::now() + options.busy_timeout;
    loop {
        match build_pool_options(1, options)
            .connect_with(writer_options.clone())
            .await
        {
            Err(error) if is_locked(&error) && Instant::now() < deadline => {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            outcome => return outcome,
        }
    }
}

pub(super) async fn open_memory(options: &StoreOptions) -> Result<Database> {
    // Each connection to a database in memory would have its own database, so one connection serves
    // all callers.
    let writer: SqlitePool = build_pool_options(1, options)
        .min_connections(1)
        .connect_with(configure_writer(build_connect_options(options), options).in_memory(true))
        .await
        .map_err(translate)?;
    let readers = writer.clone();
    Ok(Database::Sqlite {
        writer,
        readers,
        lock_failures: LockFailures::default(),
        files: None,
    })
}

/// Creates the database file with mode 0600 if the file does not exist: SQLite would create a file
/// that all users can read. SQLite gives its companion files the same mode.
///
/// A file that SQLite may have open must not be opened here: closing the file would release the
/// POSIX locks of this process on the file, and another process could then remove the write-ahead
/// log with all its data. The file is therefore created under another name, closed, and then linked
/// to its path.
fn create_file(path: &Path) -> Result<()> {
    let create_result = path
        .try_exists()
        .and_then(|exists| if exists { Ok(()) } else { create_new(path) });
    create_result.map_err(|source| {
        let message = format!("cannot create the store '{}': {source}", path.display());
        StoreError::unavailable(message).with_source(source)
    })
}

pub(super) fn create_new(path: &Path) -> io::Result<()> {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{:016x}", rand::random::<u64>()));
    let temporary_path = Path::new(&name);
    let mut options = OpenOptions::new();
    drop(
        options
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(temporary_path)?,
    );
    let link_result = fs::hard_link(temporary_path, path);
    fs::remove_file(temporary_path)?;
    match link_result {
        // The file exists, because another process has just created it.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        link_result => link_result,
    }
}

fn build_pool_options(max_connections: u32, options: &StoreOptions) -> SqlitePoolOptions {
    SqlitePoolOptions::new()
        .max_connections(max_connections)
        .acquire_timeout(options.busy_timeout.max(MIN_ACQUIRE_TIMEOUT))
        .idle_timeout(None)
        .max_lifetime(None)
        .test_before_acquire(false)
}

fn build_connect_options(options: &StoreOptions) -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .busy_timeout(options.busy_timeout)
        .foreign_keys(true)
        .disable_statement_logging()
}

/// Adds the settings of the writing connection. Reading connections do not get these settings,
/// because some of them are written to the file, and a reading connection would have to wait for
/// the write lock.
fn configure_writer(
    connect_options: SqliteConnectOptions,
    options: &StoreOptions,
) -> SqliteConnectOptions {
    let synchronous_mode = match options.durability {
        Durability::Process => SqliteSynchronous::Normal,
        Durability::PowerLoss => SqliteSynchronous::Full,
    };
    let writer_options = connect_options
        .auto_vacuum(SqliteAutoVacuum::Incremental)
        .page_size(PAGE_BYTES)
        .synchronous(synchronous_mode)
        // A checkpoint waits for the disk, so checkpoints run every 16 MiB of the log instead of
        // every 4 MiB.
        .pragma("wal_autocheckpoint", "4000")
        .pragma("journal_size_limit", "67108864");
    match options.max_file_bytes {
        Some(bytes) => {
            let page_count = (bytes / u64::from(PAGE_BYTES)).max(1);
            writer_options.pragma("max_page_count", page_count.to_string())
        }
        None => writer_options,
    }
}
