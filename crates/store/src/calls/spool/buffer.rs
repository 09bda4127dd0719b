use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pillion_core::store::{CallFilter, CallId, StoreError, ToolCallRecord};

use super::file::SpoolFile;
use super::reserve::Reserve;
use super::{MAX_BYTES, MAX_CALLS, SpooledCalls, UnwrittenCalls, closed, has_run, line, query};

/// Maximum size of the arguments in the record of an ended call on a full disk, in bytes.
const MAX_SHORT_ARGUMENTS: usize = 256;

/// The records in the spool files that may not be in the database yet.
#[derive(Debug)]
pub(super) struct SpoolBuffer {
    /// One spool file takes new records. The other spool file contains the records that are being
    /// written to the database, and is emptied afterwards.
    files: [SpoolFile; 2],
    /// The index of the spool file that takes new records.
    taking: usize,
    /// The latest record of each call in the spool file that takes new records.
    calls: SpooledCalls,
    /// The records that are being written to the database.
    in_flight: Arc<Vec<ToolCallRecord>>,
    bytes: usize,
    is_writing: bool,
    /// Whether the last write to the database failed.
    is_stuck: bool,
    /// Whether new records are rejected.
    is_closed: bool,
    /// Disk space that the ends of running calls may use when the disk is full.
    reserve: Reserve,
    /// The path of the database. The spool files are in the same directory.
    database: PathBuf,
}

impl SpoolBuffer {
    /// Creates new spool files beside the database.
    pub(super) fn for_database(database: &Path) -> io::Result<Self> {
        let files = [SpoolFile::create(database)?, SpoolFile::create(database)?];
        Ok(Self {
            files,
            taking: 0,
            calls: SpooledCalls::new(),
            in_flight: Arc::default(),
            bytes: 0,
            is_writing: false,
            is_stuck: false,
            is_closed: false,
            reserve: Reserve::for_database(database)?,
            database: std::path::absolute(database)?,
        })
    }

    pub(super) fn is_full(&self) -> bool {
        self.is_stuck || self.calls.len() >= MAX_CALLS || self.bytes >= MAX_BYTES
    }

    pub(super) fn is_stuck(&self) -> bool {
        self.is_stuck
    }

    /// Returns whether any record is not in the database yet.
    pub(super) fn is_due(&self) -> bool {
        self.is_stuck || self.is_writing || !self.calls.is_empty()
    }

    /// Rejects all further records.
    pub(super) fn close(&mut self) {
        self.is_closed = true;
    }

    /// Adds a record to the spool file and to the next write to the database. The end of a call is
    /// written to the database even if the spool file cannot take it. `changes` is the number of
    /// changes in the directory.
    ///
    /// # Errors
    /// `unavailable`, if the record would not survive the process.
    pub(super) fn add(
        &mut self,
        call: ToolCallRecord,
        line: &[u8],
        changes: Option<u64>,
    ) -> Result<(), StoreError> {
        if self.is_closed {
            return Err(closed());
        }
        let appended = if has_run(&call) {
            let appended = self.append_end(&call, line, changes);
            self.remember(call, line.len());
            appended
        } else {
            let restocked = self.reserve.restock();
            let appended = restocked.and_then(|()| self.append(line, changes));
            if appended.is_ok() {
                self.remember(call, line.len());
            }
            appended
        };
        appended.map_err(|error| {
            StoreError::unavailable(format!("a call cannot be recorded: {error}"))
                .with_source(error)
        })
    }

    /// Adds the end of a call while the file of the database is missing. Creates no spool file,
    /// because another database may be at the path.
    pub(super) fn add_end(&mut self, call: ToolCallRecord, line: &[u8], changes: Option<u64>) {
        if self.is_closed {
            return;
        }
        if self.files[self.taking].is_at_path(changes)
            && let Err(error) = self.files[self.taking].append(line)
        {
            tracing::debug!(
                %error,
                "The end of a call is kept in memory: its file cannot be written"
            );
        }
        self.remember(call, line.len());
    }

    fn remember(&mut self, call: ToolCallRecord, bytes: usize) {
        self.bytes += bytes;
        self.calls.insert(call.id, call);
    }

    fn append(&mut self, line: &[u8], changes: Option<u64>) -> io::Result<()> {
        if !self.files[self.taking].is_at_path(changes) {
            self.replace_file()?;
        }
        self.files[self.taking].append(line)
    }

    /// Appends the end of a call, on a full disk into the reserved space: the call was allowed to
    /// run, and its caller receives the result.
    fn append_end(
        &mut self,
        call: &ToolCallRecord,
        line: &[u8],
        changes: Option<u64>,
    ) -> io::Result<()> {
        if self.reserve.is_whole() {
            match self.append(line, changes) {
                Err(error) if is_full_disk(&error) => {}
                outcome => return outcome,
            }
        }
        let short = line::encode(&short_end(call)).map_err(io::Error::other)?;
        loop {
            match self.append(&short, changes) {
                Err(error) if is_full_disk(&error) && self.reserve.release()? => {}
                outcome => return outcome,
            }
        }
    }

    /// Creates a new spool file with the known records after the current spool file was removed.
    fn replace_file(&mut self) -> io::Result<()> {
        let mut file = SpoolFile::create(&self.database)?;
        for call in self.calls.values() {
            file.append(&line::encode(call).map_err(io::Error::other)?)?;
        }
        self.files[self.taking] = file;
        tracing::warn!("A file of recorded calls was deleted; created a new one");
        Ok(())
    }

    /// Takes the records for a write to the database, and switches the spool files.
    pub(super) fn take(&mut self) -> Arc<Vec<ToolCallRecord>> {
        if self.calls.is_empty() {
            return Arc::default();
        }
        self.taking = 1 - self.taking;
        self.bytes = 0;
        self.is_writing = true;
        let calls = std::mem::take(&mut self.calls).into_values().collect();
        self.in_flight = Arc::new(calls);
        Arc::clone(&self.in_flight)
    }

    /// Records that the taken records are in the database.
    pub(super) fn mark_written(&mut self) {
        self.is_writing = false;
        self.is_stuck = false;
        self.in_flight = Arc::default();
        let other = 1 - self.taking;
        if let Err(error) = self.files[other].clear() {
            // The next process that opens the store would only write these records to the database
            // again.
            tracing::debug!(%error, "Cannot clear a file of recorded calls");
        }
    }

    /// Records that the taken records could not be written.
    pub(super) fn mark_failed(&mut self) {
        self.is_stuck = true;
    }

    /// Returns the calls whose current state is not in the database.
    pub(super) fn unwritten_calls(&self, filter: &CallFilter) -> UnwrittenCalls {
        let is_newer = |call: &&ToolCallRecord| !self.calls.contains_key(&call.id);
        let in_flight = self.in_flight.iter().filter(is_newer);
        let all: Vec<_> = self.calls.values().chain(in_flight).collect();
        let ids: Vec<CallId> = all.iter().map(|call| call.id).collect();
        let matching = all.into_iter().filter(|call| query::admits(filter, call));
        UnwrittenCalls {
            matching: matching.cloned().collect(),
            ids,
        }
    }

    pub(super) fn remove_files(&mut self) {
        for file in &mut self.files {
            file.remove();
        }
    }
}

/// Returns the end of a call without its long members, so that the end fits on a full disk.
fn short_end(call: &ToolCallRecord) -> ToolCallRecord {
    let is_short = call.arguments.len() <= MAX_SHORT_ARGUMENTS;
    let error = call.error.as_ref();
    ToolCallRecord {
        arguments: if is_short {
            call.arguments.clone()
        } else {
            "{}".to_owned()
        },
        repaired_arguments: None,
        approved_arguments: None,
        result: None,
        error: error.map(|_| "Not recorded: the disk was full".to_owned()),
        ..call.clone()
    }
}

fn is_full_disk(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
    )
}
