//! The spool: the records of calls on their way to the database.
//!
//! A commit of SQLite takes longer than many calls. A record is therefore acknowledged once a small
//! file beside the database contains the record, which takes one `write`: like a committed record,
//! the record then survives a crash of the process. A task writes the gathered records to the
//! database a moment later; by then most calls have ended, so that each call is written once. The
//! process that opens the store next reads the files that a crashed process left.

mod buffer;
mod contents;
mod file;
mod line;
mod reserve;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use indexmap::IndexMap;
use parking_lot::Mutex;
use pillion_core::RepeatLimit;
use pillion_core::store::{CallFilter, CallId, CallStatus, StoreError, ToolCallRecord};
use tokio::sync::{Notify, mpsc, oneshot};

use super::batch::{Statements, next_batch_size};
use super::{UnwrittenCalls, closed, copy_error, query};
use crate::clock::StoreClock;
use crate::database::Database;
use buffer::SpoolBuffer;
use contents::SpoolContents;

/// How long records gather before they are written to the database.
const WRITE_INTERVAL: Duration = Duration::from_millis(25);
/// Delay before a failed write is repeated, unless a caller requests a repetition sooner.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// Maximum number of gathered calls, and maximum size of their records in bytes. Records of further
/// calls wait.
const MAX_CALLS: usize = 4_096;
const MAX_BYTES: usize = 16 * 1024 * 1024;

type SpooledCalls = IndexMap<CallId, ToolCallRecord>;

/// Acknowledges records immediately and writes the records to the database later. Until then, the
/// spool files contain the current state of the calls.
#[derive(Debug)]
pub(crate) struct CallSpool {
    shared: Arc<SharedSpool>,
    flush_requests: mpsc::Sender<FlushRequest>,
}

/// The channel for the reply to a caller that waits until all records are in the database.
type FlushRequest = oneshot::Sender<Result<(), StoreError>>;

#[derive(Debug)]
struct SharedSpool {
    buffer: Mutex<SpoolBuffer>,
    news: Notify,
    database: Database,
}

impl CallSpool {
    /// Creates the spool files beside the database, and starts the task that writes to the
    /// database. The task ends when this value is dropped.
    ///
    /// # Errors
    /// `unavailable` if the spool files cannot be created.
    pub(crate) fn start(
        path: &Path,
        database: Database,
        clock: StoreClock,
    ) -> Result<Self, StoreError> {
        let buffer = SpoolBuffer::for_database(path).map_err(|error| {
            let message = format!(
                "cannot create the files of recorded calls beside the store '{}': {error}",
                path.display()
            );
            StoreError::unavailable(message).with_source(error)
        })?;
        let shared = Arc::new(SharedSpool {
            buffer: Mutex::new(buffer),
            news: Notify::new(),
            database: database.clone(),
        });
        let (flush_requests, received_requests) = mpsc::channel(64);
        let spooler = Spooler {
            shared: Arc::clone(&shared),
            statements: Statements::new(&database, clock),
            database,
            batch: Arc::default(),
            failures: RepeatLimit::new(),
        };
        tokio::spawn(spooler.run(received_requests));
        Ok(Self {
            shared,
            flush_requests,
        })
    }

    /// Stores a record; when this method returns, the record survives a crash of the process. If
    /// too many records wait, or the database cannot be written, the record of a call that begins
    /// waits for the database. The record of a call that has run is stored as long as the spool
    /// file accepts it. While the file of the database is missing, the record is buffered, but not
    /// acknowledged.
    ///
    /// The `write` runs on this thread: using another thread takes longer than most writes.
    pub(crate) async fn append(&self, call: ToolCallRecord) -> Result<(), StoreError> {
        let line = line::encode(&call)?;
        let database = &self.shared.database;
        let mut changes = database.directory_changes();
        if let Err(error) = database.check_files_if_changed(changes) {
            if has_run(&call) {
                self.shared.buffer.lock().add_end(call, &line, changes);
                self.shared.news.notify_one();
            }
            return Err(error);
        }
        if self.shared.buffer.lock().is_full() {
            let settled = self.flush().await;
            if !has_run(&call) {
                settled?;
            }
            changes = database.directory_changes();
        }
        let added = self.shared.buffer.lock().add(call, &line, changes);
        self.shared.news.notify_one();
        added
    }

    /// While the database cannot be written, returns the calls whose current state is not in the
    /// database. Returns `None` if the database can be written.
    pub(crate) fn stuck_calls(&self, filter: &CallFilter) -> Option<UnwrittenCalls> {
        let buffer = self.shared.buffer.lock();
        buffer.is_stuck().then(|| buffer.unwritten_calls(filter))
    }

    /// Waits until all appended records are in the database and can be read from the database.
    ///
    /// # Errors
    /// `unavailable` if the database cannot be written, so that it lacks records.
    pub(crate) async fn catch_up(&self) -> Result<(), StoreError> {
        let is_due = {
            let buffer = self.shared.buffer.lock();
            buffer.is_due()
        };
        if is_due { self.flush().await } else { Ok(()) }
    }

    /// Returns whether the last write to the database failed.
    pub(crate) fn is_stuck(&self) -> bool {
        self.shared.buffer.lock().is_stuck()
    }

    /// Writes all records to the database and removes the spool files. Later records are rejected.
    pub(crate) async fn finish(&self) {
        self.shared.buffer.lock().close();
        match self.flush().await {
            Ok(()) => self.shared.buffer.lock().remove_files(),
            Err(error) => tracing::warn!(
                %error,
                "Cannot write the recorded calls to the store; they stay in the files beside it \
                until it is opened again"
            ),
        }
    }

    async fn flush(&self) -> Result<(), StoreError> {
        let (reply, settled) = oneshot::channel();
        self.flush_requests
            .send(reply)
            .await
            .map_err(|_| closed())?;
        settled.await.unwrap_or_else(|_| Err(closed()))
    }
}

/// The task that writes records to the database.
struct Spooler {
    shared: Arc<SharedSpool>,
    database: Database,
    statements: Statements,
    /// Records that must be written before the task takes further records.
    batch: Arc<Vec<ToolCallRecord>>,
    failures: RepeatLimit,
}

impl Spooler {
    async fn run(mut self, mut received_requests: mpsc::Receiver<FlushRequest>) {
        let mut is_open = true;
        while is_open {
            let mut replies = Vec::new();
            tokio::select! {
                request = received_requests.recv() => match request {
                    Some(reply) => replies.push(reply),
                    None => is_open = false,
                },
                () = self.wait_until_due() => {}
            }
            while let Ok(reply) = received_requests.try_recv() {
                replies.push(reply);
            }
            let outcome = self.write_all().await.map_err(Arc::new);
            match &outcome {
                Ok(()) => {
                    if let Some(repeated) = self.failures.succeeded() {
                        tracing::warn!(repeated, "The recorded calls were written to the database");
                    }
                }
                Err(error) => {
                    // Requests that arrived during the failed write would fail in the same way,
                    // each after the same wait.
                    while let Ok(reply) = received_requests.try_recv() {
                        replies.push(reply);
                    }
                    if let Some(repeated) = self.failures.failed() {
                        tracing::error!(
                            %error, repeated,
                            "Cannot write the recorded calls to the database"
                        );
                    }
                }
            }
            for reply in replies {
                let outcome = outcome.as_ref().copied().map_err(copy_error);
                let _ = reply.send(outcome); // The caller may have given up.
            }
        }
    }

    async fn wait_until_due(&self) {
        if self.batch.is_empty() {
            self.shared.news.notified().await;
            tokio::time::sleep(WRITE_INTERVAL).await;
        } else {
            tokio::time::sleep(RETRY_INTERVAL).await;
        }
    }

    /// Writes the records of a failed write, then the gathered records.
    async fn write_all(&mut self) -> Result<(), StoreError> {
        if !self.batch.is_empty() {
            self.write_batch().await?;
        }
        self.batch = self.shared.buffer.lock().take();
        if !self.batch.is_empty() {
            self.write_batch().await?;
        }
        Ok(())
    }

    async fn write_batch(&mut self) -> Result<(), StoreError> {
        match write(&self.database, &self.statements, &self.batch).await {
            Ok(late) => log_late_calls(late),
            Err(error) => {
                self.shared.buffer.lock().mark_failed();
                return Err(error);
            }
        }
        self.batch = Arc::default();
        self.shared.buffer.lock().mark_written();
        Ok(())
    }
}

/// Writes the records in spool files of ended processes to the database. A concurrent call in
/// another process waits until this call has ended. Returns the number of records that cannot be
/// read.
pub(crate) async fn recover(
    path: &Path,
    database: &Database,
    clock: &StoreClock,
) -> Result<u64, StoreError> {
    let unreadable = |error| unreadable(path, error);
    if !file::any_exists(path).map_err(unreadable)? {
        return Ok(0);
    }
    let lock_path = path.to_owned();
    let _lock = tokio::task::spawn_blocking(move || file::lock_recovery(&lock_path))
        .await
        .map_err(io::Error::other)
        .and_then(|lock| lock)
        .map_err(unreadable)?;
    let mut lost = 0;
    for mut left in file::open_abandoned(path).map_err(unreadable)? {
        let mut calls = SpooledCalls::new();
        let contents = SpoolContents::read(&left.read().map_err(unreadable)?, &mut calls);
        lost += contents.count_unreadable() as u64;
        contents.log(left.path());
        let records: Vec<_> = calls.into_values().collect();
        let statements = Statements::new(database, clock.clone());
        log_late_calls(write(database, &statements, &records).await?);
        if contents.damaged > 0 {
            left.keep_as_damaged(path).map_err(unreadable)?;
        } else if contents.has_unknown {
            tracing::warn!("Kept a file of recorded calls that a newer version of Pillion wrote");
        } else {
            left.remove();
        }
    }
    Ok(lost)
}

/// Returns the damaged spool files that [`recover`] has kept, with a description of each file.
pub(crate) fn damaged_files(path: &Path) -> Result<Vec<String>, StoreError> {
    let unreadable = |error| unreadable(path, error);
    let mut descriptions = Vec::new();
    for (path, bytes) in file::read_damaged(path).map_err(unreadable)? {
        let contents = SpoolContents::read(&bytes, &mut SpooledCalls::new());
        descriptions.push(contents.description(&path));
    }
    Ok(descriptions)
}

/// Returns the spool files beside the database that contain records.
pub(crate) fn files_with_records(path: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = file::read_all(path)?;
    found.retain(|(_, bytes)| contents::has_records(bytes));
    Ok(found.into_iter().map(|(path, _)| path).collect())
}

/// The records in the spool files beside a database, which may not be in the database yet.
#[derive(Debug, Default)]
pub(crate) struct PendingRecords(Vec<ToolCallRecord>);

impl PendingRecords {
    /// Reads the spool files of all processes, including running processes. A record that is in no
    /// spool file is in the database.
    ///
    /// # Errors
    /// `unavailable` if the spool files cannot be read.
    pub(crate) fn for_database(path: &Path) -> Result<Self, StoreError> {
        let mut calls = SpooledCalls::new();
        for (_, bytes) in file::read_all(path).map_err(|error| unreadable(path, error))? {
            // The owner of the spool file may be writing its last record at this moment.
            SpoolContents::read(&bytes, &mut calls);
        }
        Ok(Self(calls.into_values().collect()))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Writes the records that are missing or outdated in the database.
    pub(crate) async fn write_into(
        &self,
        database: &Database,
        clock: &StoreClock,
    ) -> Result<(), StoreError> {
        // The owner of a spool file may already have written the end of a call to the database.
        let statements = Statements::new(database, clock.clone());
        let written = write(database, &statements, &self.0).await;
        written.map(drop)
    }
}

/// Returns whether the record is the end of a call that was allowed to run, so that the beginning
/// of the call was acknowledged. A rejected call has no duration.
pub(super) fn has_run(call: &ToolCallRecord) -> bool {
    let took_time = call.duration.is_some() || call.status == CallStatus::Success;
    call.status.is_final() && took_time
}

/// Adds a record, unless the end of the call is already known: the file that is read first may
/// contain the end.
fn merge_record(mut call: ToolCallRecord, calls: &mut SpooledCalls) {
    match calls.get_mut(&call.id) {
        Some(known) if known.status.is_final() => {}
        Some(known) => {
            // On a full disk, the record of the end has no arguments.
            call.arguments = std::mem::take(&mut known.arguments);
            *known = call;
        }
        None => drop(calls.insert(call.id, call)),
    }
}

fn unreadable(path: &Path, error: io::Error) -> StoreError {
    let message = format!(
        "cannot read the files of recorded calls beside the store '{}': {error}",
        path.display()
    );
    StoreError::unavailable(message).with_source(error)
}

/// Writes the records in as few statements as possible. A record that the database rejects is
/// skipped and logged. Returns the number of records of calls that had already ended in the
/// database.
async fn write(
    database: &Database,
    statements: &Statements,
    mut calls: &[ToolCallRecord],
) -> Result<usize, StoreError> {
    let mut late = 0;
    while !calls.is_empty() {
        let (batch, rest) = calls.split_at(next_batch_size(calls.iter()));
        match statements.write(database, batch.iter()).await {
            Ok(written) => late += batch.len().saturating_sub(written),
            Err(error) if error.is_unavailable() || error.is_corrupt() => return Err(error),
            Err(error) if batch.len() == 1 => tracing::error!(
                call.record = %batch[0].id, %error,
                "Cannot record a call"
            ),
            Err(_) => {
                for call in batch {
                    let call = std::slice::from_ref(call);
                    late += Box::pin(write(database, statements, call)).await?;
                }
            }
        }
        calls = rest;
    }
    Ok(late)
}

fn log_late_calls(calls: usize) {
    if calls > 0 {
        tracing::warn!(
            calls,
            "Skipped records of calls that the database already has as ended"
        );
    }
}
