use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pillion_core::store::{CallFilter, CallId, StoreError, ToolCallRecord};

use super::file::SpoolFile;
use super::reserve::DiskReserve;
use super::{
    MAX_GATHERED_BYTES, MAX_GATHERED_CALLS, SpooledCalls, UnwrittenCalls, closed_error, has_run,
    line, query,
};
use crate::Result;

/// Maximum size of the arguments that the record of a call's end contains if the disk is full, in
/// bytes.
const MAX_SHORT_ARGUMENTS_BYTES: usize = 256;

/// The records in the spool files that may not be in the database yet.
#[derive(Debug)]
pub(super) struct SpoolBuffer {
    /// One spool file takes new records. The other spool file contains the records that are being
    /// written to the database, and is emptied afterwards.
    files: [SpoolFile; 2],
    /// The index of the spool file that takes new records.
    active_index: usize,
    /// The latest record of each call in the spool file that takes new records.
    calls: SpooledCalls,
    /// The records that are being written to the database.
    in_flight_calls: Arc<Vec<ToolCallRecord>>,
    buffered_bytes: usize,
    is_writing: bool,
    /// Whether the last write to the database failed.
    has_failed_write: bool,
    /// Whether new records are rejected.
    is_closed: bool,
    /// Disk space that the ends of running calls may use when the disk is full.
    reserve: DiskReserve,
    /// The path of the database. The spool files are in the same directory.
    database_path: PathBuf,
}

impl SpoolBuffer {
    /// Creates new spool files beside the database.
    pub(super) fn for_database(database_path: &Path) -> io::Result<Self> {
        let files = [
            SpoolFile::create(database_path)?,
            SpoolFile::create(database_path)?,
        ];
        Ok(Self {
            files,
            active_index: 0,
            calls: SpooledCalls::new(),
            in_flight_calls: Arc::default(),
            buffered_bytes: 0,
            is_writing: false,
            has_failed_write: false,
            is_closed: false,
            reserve: DiskReserve::for_database(database_path)?,
            database_path: std::path::absolute(database_path)?,
        })
    }

    pub(super) fn is_at_limit(&self) -> bool {
        self.has_failed_write
            || self.calls.len() >= MAX_GATHERED_CALLS
            || self.buffered_bytes >= MAX_GATHERED_BYTES
    }

    pub(super) fn has_failed_write(&self) -> bool {
        self.has_failed_write
    }

    /// Returns whether any record is not in the database yet.
    pub(super) fn has_unwritten_records(&self) -> bool {
        self.has_failed_write || self.is_writing || !self.calls.is_empty()
    }

    /// Rejects all further records.
    pub(super) fn close(&mut self) {
        self.is_closed = true;
    }

    /// Adds a record to the spool file and to the next write to the database. The end of a call is
    /// written to the database even if it cannot be appended to the spool file. `change_count` is
    /// the number of changes in the directory of the spool files.
    ///
    /// # Errors
    /// `unavailable`, if the record would not survive a crash of the process.
    pub(super) fn add(
        &mut self,
        call: ToolCallRecord,
        line: &[u8],
        change_count: Option<u64>,
    ) -> Result<()> {
        if self.is_closed {
            return Err(closed_error());
        }
        let id = call.id;
        let append_result = if has_run(&call) {
            let append_result = self.append_end(&call, line, change_count);
            self.buffer_record(call, line.len());
            append_result
        } else {
            let refill_result = self.reserve.refill();
            let append_result = refill_result.and_then(|()| self.append(line, change_count));
            if append_result.is_ok() {
                self.buffer_record(call, line.len());
            }
            append_result
        };
        append_result.map_err(|error| {
            StoreError::unavailable(format!("call '{id}' cannot be recorded: {error}"))
                .with_source(error)
        })
    }

    /// Adds the end of a call while the file of the database is missing. Creates no spool file,
    /// because another database may be at the path.
    pub(super) fn add_end(&mut self, call: ToolCallRecord, line: &[u8], change_count: Option<u64>) {
        if self.is_closed {
            return;
        }
        if self.files[self.active_index].is_at_path(change_count)
            && let Err(error) = self.files[self.active_index].append(line)
        {
            tracing::debug!(
                %error,
                "Cannot write the end of a call to the file of recorded calls: keeping the record \
                 in memory"
            );
        }
        self.buffer_record(call, line.len());
    }

    fn buffer_record(&mut self, call: ToolCallRecord, bytes: usize) {
        self.buffered_bytes += bytes;
        self.calls.insert(call.id, call);
    }

    fn append(&mut self, line: &[u8], change_count: Option<u64>) -> io::Result<()> {
        if !self.files[self.active_index].is_at_path(change_count) {
            self.replace_file()?;
        }
        self.files[self.active_index].append(line)
    }

    /// Appends the end of a call to the spool file. If the disk is full, releases reserved space
    /// for a shortened record, because the call was allowed to run, and its caller receives the
    /// result.
    fn append_end(
        &mut self,
        call: &ToolCallRecord,
        line: &[u8],
        change_count: Option<u64>,
    ) -> io::Result<()> {
        if self.reserve.is_fully_reserved() {
            match self.append(line, change_count) {
                Err(error) if is_full_disk(&error) => {}
                outcome => return outcome,
            }
        }
        let short_line = line::encode(&shorten_end(call)).map_err(io::Error::other)?;
        loop {
            match self.append(&short_line, change_count) {
                Err(error) if is_full_disk(&error) && self.reserve.release()? => {}
                outcome => return outcome,
            }
        }
    }

    /// Creates a new spool file with the buffered records after the current spool file was removed.
    fn replace_file(&mut self) -> io::Result<()> {
        let mut file = SpoolFile::create(&self.database_path)?;
        for call in self.calls.values() {
            file.append(&line::encode(call).map_err(io::Error::other)?)?;
        }
        self.files[self.active_index] = file;
        tracing::warn!("A file of recorded calls was deleted; created a new one");
        Ok(())
    }

    /// Takes all buffered records for a write to the database. The other spool file takes new
    /// records from now on.
    pub(super) fn take(&mut self) -> Arc<Vec<ToolCallRecord>> {
        if self.calls.is_empty() {
            return Arc::default();
        }
        self.active_index = 1 - self.active_index;
        self.buffered_bytes = 0;
        self.is_writing = true;
        let calls = std::mem::take(&mut self.calls).into_values().collect();
        self.in_flight_calls = Arc::new(calls);
        Arc::clone(&self.in_flight_calls)
    }

    /// Marks the taken records as written to the database.
    pub(super) fn mark_written(&mut self) {
        self.is_writing = false;
        self.has_failed_write = false;
        self.in_flight_calls = Arc::default();
        let inactive_index = 1 - self.active_index;
        if let Err(error) = self.files[inactive_index].clear() {
            // The error is only logged, because it does no harm: the next process that opens the
            // store writes the same records to the database again.
            tracing::debug!(%error, "Cannot clear a file of recorded calls");
        }
    }

    /// Marks the write of the taken records as failed.
    pub(super) fn mark_failed(&mut self) {
        self.has_failed_write = true;
    }

    /// Returns the calls whose current state is not in the database.
    pub(super) fn collect_unwritten_calls(&self, filter: &CallFilter) -> UnwrittenCalls {
        let is_latest = |call: &&ToolCallRecord| !self.calls.contains_key(&call.id);
        let in_flight_calls = self.in_flight_calls.iter().filter(is_latest);
        let unwritten_calls: Vec<_> = self.calls.values().chain(in_flight_calls).collect();
        let ids: Vec<CallId> = unwritten_calls.iter().map(|call| call.id).collect();
        let matching_calls = unwritten_calls
            .into_iter()
            .filter(|call| query::is_match(filter, call));
        UnwrittenCalls {
            matching_calls: matching_calls.cloned().collect(),
            ids,
        }
    }

    pub(super) fn remove_files(&mut self) {
        for file in &mut self.files {
            file.remove();
        }
    }
}

/// Returns the record of a call's end without its long members, so that the record fits into the
/// space that is released on a full disk.
fn shorten_end(call: &ToolCallRecord) -> ToolCallRecord {
    let is_short = call.arguments.len() <= MAX_SHORT_ARGUMENTS_BYTES;
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
