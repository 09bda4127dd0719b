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

use super::batch::{InsertStatements, choose_batch_size};
use super::{UnwrittenCalls, closed_error, copy_error, query};
use crate::Result;
use crate::clock::StoreClock;
use crate::database::Database;
use buffer::SpoolBuffer;
use contents::SpoolContents;

/// How long the spool gathers records before it writes them to the database.
const WRITE_INTERVAL: Duration = Duration::from_millis(100);
/// Delay before a failed write is repeated, unless a caller requests a write sooner.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// Maximum number of gathered calls, and maximum total size of their records, in bytes. When either
/// maximum is reached, records of further calls wait.
const MAX_GATHERED_CALLS: usize = 4_096;
const MAX_GATHERED_BYTES: usize = 16 * 1024 * 1024;

type SpooledCalls = IndexMap<CallId, ToolCallRecord>;

/// Acknowledges records immediately and writes the records to the database later. Until then, the
/// spool files contain the current state of the calls.
#[derive(Debug)]
pub(crate) struct CallSpool {
    shared: Arc<SharedSpool>,
    flush_requests: mpsc::Sender<FlushRequest>,
}

/// The channel for the reply to a caller that waits until all records are in the database.
type FlushRequest = oneshot::Sender<Result<()>>;

#[derive(Debug)]
struct SharedSpool {
    buffer: Mutex<SpoolBuffer>,
    record_notify: Notify,
    database: Database,
}

impl CallSpool {
    /// Creates the spool files beside the database, and starts the task that writes to the
    /// database. The task ends when this value is dropped.
    ///
    /// # Errors
    /// `unavailable` if the spool files cannot be created.
    pub(crate) fn start(path: &Path, database: Database, clock: StoreClock) -> Result<Self> {
        let buffer = SpoolBuffer::for_database(path).map_err(|error| {
            let message = format!(
                "cannot create the files of recorded calls beside the store '{}': {error}",
                path.display()
            );
            StoreError::unavailable(message).with_source(error)
        })?;
        let shared = Arc::new(SharedSpool {
            buffer: Mutex::new(buffer),
            record_notify: Notify::new(),
            database: database.clone(),
        });
        let (flush_requests, request_receiver) = mpsc::channel(64);
        let spooler = Spooler {
            shared: Arc::clone(&shared),
            statements: InsertStatements::new(&database, clock),
            database,
            batch: Arc::default(),
            failures: RepeatLimit::new(),
        };
        tokio::spawn(spooler.run(request_receiver));
        Ok(Self {
            shared,
            flush_requests,
        })
    }

    /// Stores a record. If this method succeeds, the record survives a crash of the process.
    ///
    /// - If too many records wait, or the last write to the database failed, the record waits for a
    ///   write to the database. If that write fails, the record of a call that begins is rejected,
    ///   but the record of a call that has run is stored.
    /// - While the file of the database is missing, this method fails. The record of a call that
    ///   has run is buffered nevertheless.
    ///
    /// The system call `write` runs on the calling thread, because using another thread takes
    /// longer than most writes.
    pub(crate) async fn append(&self, call: ToolCallRecord) -> Result<()> {
        let line = line::encode(&call)?;
        let database = &self.shared.database;
        let mut change_count = database.count_directory_changes();
        if let Err(error) = database.check_files_if_changed(change_count) {
            if has_run(&call) {
                self.shared.buffer.lock().add_end(call, &line, change_count);
                self.shared.record_notify.notify_one();
            }
            return Err(error);
        }
        if self.shared.buffer.lock().is_at_limit() {
            let flush_result = self.flush().await;
            if !has_run(&call) {
                flush_result?;
            }
            change_count = database.count_directory_changes();
        }
        let add_result = self.shared.buffer.lock().add(call, &line, change_count);
        self.shared.record_notify.notify_one();
        add_result
    }

    /// Returns the calls whose current state is not in the database, if the last write to the
    /// database failed. Returns `None` if the database can be written.
    pub(crate) fn find_unwritten_calls(&self, filter: &CallFilter) -> Option<UnwrittenCalls> {
        let buffer = self.shared.buffer.lock();
        buffer
            .has_failed_write()
            .then(|| buffer.collect_unwritten_calls(filter))
    }

    /// Waits until all appended records are in the database and can be read from the database.
    ///
    /// # Errors
    /// `unavailable` if the database cannot be written, so that the database lacks records.
    pub(crate) async fn catch_up(&self) -> Result<()> {
        let has_unwritten_records = {
            let buffer = self.shared.buffer.lock();
            buffer.has_unwritten_records()
        };
        if has_unwritten_records {
            self.flush().await
        } else {
            Ok(())
        }
    }

    /// Returns whether the last write to the database failed.
    pub(crate) fn has_failed_write(&self) -> bool {
        self.shared.buffer.lock().has_failed_write()
    }

    /// Writes all records to the database and removes the spool files. Later records are rejected.
    pub(crate) async fn finish(&self) {
        self.shared.buffer.lock().close();
        match self.flush().await {
            Ok(()) => self.shared.buffer.lock().remove_files(),
            Err(error) => tracing::warn!(
                %error,
                "Cannot write the recorded calls to the store: the calls stay in files beside the \
                store until the store is opened again"
            ),
        }
    }

    async fn flush(&self) -> Result<()> {
        let (reply_sender, reply_receiver) = oneshot::channel();
        self.flush_requests
            .send(reply_sender)
            .await
            .map_err(|_| closed_error())?;
        reply_receiver.await.unwrap_or_else(|_| Err(closed_error()))
    }
}

/// The task that writes records to the database.
struct Spooler {
    shared: Arc<SharedSpool>,
    database: Database,
    statements: InsertStatements,
    /// Records that must be written before the task takes further records.
    batch: Arc<Vec<ToolCallRecord>>,
    failures: RepeatLimit,
}

impl Spooler {
    async fn run(mut self, mut request_receiver: mpsc::Receiver<FlushRequest>) {
        let mut is_open = true;
        while is_open {
            let mut reply_senders = Vec::new();
            tokio::select! {
                request = request_receiver.recv() => match request {
                    Some(reply_sender) => reply_senders.push(reply_sender),
                    None => is_open = false,
                },
                () = self.wait_until_due() => {}
            }
            while let Ok(reply_sender) = request_receiver.try_recv() {
                reply_senders.push(reply_sender);
            }
            let outcome = self.write_all().await.map_err(Arc::new);
            match &outcome {
                Ok(()) => {
                    if let Some(failure_count) = self.failures.record_success() {
                        tracing::warn!(
                            repeated = failure_count,
                            "The recorded calls were written to the database"
                        );
                    }
                }
                Err(error) => {
                    // Requests that arrived during the failed write get the same error at once,
                    // because each of them would otherwise wait for another write that also fails.
                    while let Ok(reply_sender) = request_receiver.try_recv() {
                        reply_senders.push(reply_sender);
                    }
                    if let Some(failure_count) = self.failures.record_failure() {
                        tracing::error!(
                            %error, repeated = failure_count,
                            "Cannot write the recorded calls to the database"
                        );
                    }
                }
            }
            for reply_sender in reply_senders {
                let reply = outcome.as_ref().copied().map_err(copy_error);
                // An error means that the caller has stopped waiting.
                let _ = reply_sender.send(reply);
            }
        }
    }

    async fn wait_until_due(&self) {
        if self.batch.is_empty() {
            self.shared.record_notify.notified().await;
            tokio::time::sleep(WRITE_INTERVAL).await;
        } else {
            tokio::time::sleep(RETRY_INTERVAL).await;
        }
    }

    /// Writes the records of a failed write, then the gathered records.
    async fn write_all(&mut self) -> Result<()> {
        if !self.batch.is_empty() {
            self.write_batch().await?;
        }
        self.batch = self.shared.buffer.lock().take();
        if !self.batch.is_empty() {
            self.write_batch().await?;
        }
        Ok(())
    }

    async fn write_batch(&mut self) -> Result<()> {
        match write(&self.database, &self.statements, &self.batch).await {
            Ok(late_record_count) => log_late_records(late_record_count),
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

/// Writes the records in spool files of ended processes to the database. If another process is
/// already recovering spool files of the same database, waits until that process has finished.
/// Returns the number of records that cannot be read.
pub(crate) async fn recover(path: &Path, database: &Database, clock: &StoreClock) -> Result<u64> {
    let to_store_error = |error| unreadable_files(path, error);
    if !file::has_spool_files(path).map_err(to_store_error)? {
        return Ok(0);
    }
    let lock_path = path.to_owned();
    let _lock = tokio::task::spawn_blocking(move || file::lock_recovery(&lock_path))
        .await
        .map_err(io::Error::other)
        .and_then(|lock| lock)
        .map_err(to_store_error)?;
    let mut lost_record_count = 0;
    for mut spool_file in file::open_abandoned(path).map_err(to_store_error)? {
        let mut calls = SpooledCalls::new();
        let contents = SpoolContents::read(&spool_file.read().map_err(to_store_error)?, &mut calls);
        lost_record_count += contents.count_unreadable() as u64;
        contents.log(spool_file.path());
        let records: Vec<_> = calls.into_values().collect();
        let statements = InsertStatements::new(database, clock.clone());
        log_late_records(write(database, &statements, &records).await?);
        if contents.damaged_line_count > 0 {
            spool_file.keep_as_damaged(path).map_err(to_store_error)?;
        } else if contents.has_unknown_records {
            tracing::warn!(
                path = %spool_file.path().display(),
                "A file of recorded calls has records that only a newer version of Pillion can \
                 read; keeping the file for that version"
            );
        } else {
            spool_file.remove();
        }
    }
    Ok(lost_record_count)
}

/// Returns the damaged spool files that [`recover`] has renamed, with a description of each file.
pub(crate) fn list_damaged_files(path: &Path) -> Result<Vec<String>> {
    let to_store_error = |error| unreadable_files(path, error);
    let mut descriptions = Vec::new();
    for (path, bytes) in file::read_damaged(path).map_err(to_store_error)? {
        let contents = SpoolContents::read(&bytes, &mut SpooledCalls::new());
        descriptions.push(contents.describe_damage(&path));
    }
    Ok(descriptions)
}

/// Returns the spool files beside the database that contain records.
pub(crate) fn list_files_with_records(path: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = file::read_all(path)?;
    files.retain(|(_, bytes)| contents::has_records(bytes));
    Ok(files.into_iter().map(|(path, _)| path).collect())
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
    pub(crate) fn for_database(path: &Path) -> Result<Self> {
        let mut calls = SpooledCalls::new();
        for (_, bytes) in file::read_all(path).map_err(|error| unreadable_files(path, error))? {
            // An incomplete last record is ignored: the process that owns the spool file may still
            // be writing the record.
            SpoolContents::read(&bytes, &mut calls);
        }
        Ok(Self(calls.into_values().collect()))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Writes the records that are missing or outdated in the database.
    pub(crate) async fn write_into(&self, database: &Database, clock: &StoreClock) -> Result<()> {
        // If the database already contains the end of a call, the call's record is not written,
        // because the process that owns the spool file may have written the end in the meantime.
        let statements = InsertStatements::new(database, clock.clone());
        let result = write(database, &statements, &self.0).await;
        result.map(drop)
    }
}

/// Returns whether the record is the end of a call whose tool was allowed to run. A call has a
/// duration only if its tool was allowed to run, which requires that the beginning of the call was
/// acknowledged.
pub(super) fn has_run(call: &ToolCallRecord) -> bool {
    let has_duration = call.duration.is_some() || call.status == CallStatus::Success;
    call.status.is_final() && has_duration
}

/// Adds a record, unless `calls` already contains the end of the same call. The spool file with the
/// end of a call may be read before the spool file with its beginning.
fn merge_record(mut call: ToolCallRecord, calls: &mut SpooledCalls) {
    match calls.get_mut(&call.id) {
        Some(merged_call) if merged_call.status.is_final() => {}
        Some(merged_call) => {
            // The arguments are taken from the earlier record, because the record of a call's end
            // may lack them if the disk was full.
            call.arguments = std::mem::take(&mut merged_call.arguments);
            *merged_call = call;
        }
        None => drop(calls.insert(call.id, call)),
    }
}

fn unreadable_files(path: &Path, error: io::Error) -> StoreError {
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
    statements: &InsertStatements,
    mut calls: &[ToolCallRecord],
) -> Result<usize> {
    let mut late_record_count = 0;
    while !calls.is_empty() {
        let (batch, rest) = calls.split_at(choose_batch_size(calls.iter()));
        match statements.write(database, batch.iter()).await {
            Ok(written_count) => late_record_count += batch.len().saturating_sub(written_count),
            Err(error) if error.is_unavailable() || error.is_corrupt() => return Err(error),
            Err(error) if batch.len() == 1 => tracing::error!(
                call.record = %batch[0].id, %error,
                "Cannot record a call"
            ),
            Err(_) => {
                for call in batch {
                    let single_call = std::slice::from_ref(call);
                    late_record_count += Box::pin(write(database, statements, single_call)).await?;
                }
            }
        }
        calls = rest;
    }
    Ok(late_record_count)
}

fn log_late_records(late_record_count: usize) {
    if late_record_count > 0 {
        tracing::warn!(
            calls = late_record_count,
            "Skipped records of calls that had already ended according to the database"
        );
    }
}
