use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use pillion_deadline::timeout_at;
use serde_json::{Value, json};
use tokio::runtime::Handle;
use tokio::time::Instant as TokioInstant;

use super::Writer;
use super::redaction::REDACTED;
use crate::store::{
    CallId, CallStatus, StoreError, Timestamp, ToolCallRecord, write_once_available,
};
use crate::tool::{ErrorCode, JsonObject, ToolFailure, ToolResult};

/// Maximum time that a call waits for the log if the call ended as `unavailable` before its tool
/// ran. Such a call has already waited for a log or store that did not respond.
const MAX_UNAVAILABLE_WAIT: Duration = Duration::from_millis(100);

/// The call-log entry of one call. Dropping the entry before the call has ended records
/// `cancelled`.
///
/// Calls that wait for the same approval share one record. The record belongs to the first of these
/// calls, and then to the call for which the approval was used up: that call runs.
pub(in crate::executor) struct Entry {
    writer: Arc<Writer>,
    record: ToolCallRecord,
    /// When the tool started; `None` before its start.
    ran: Option<Instant>,
    /// Whether the end of the call was written, or rejected by the log.
    is_closed: bool,
    /// Whether the log reported that it did not write the beginning of the call.
    is_rejected: bool,
    /// Whether the beginning of the call may be in the log.
    may_have_begun: bool,
    /// Whether others may write to the record: the person who decides on the approval, and calls
    /// that wait for the same approval.
    is_shared: bool,
    /// Whether an earlier call, which waits for the same approval, has begun the record.
    is_continued: bool,
    /// Whether the approval was used up for this call.
    is_approved: bool,
    /// Whether the open approval completes the record, when the approval is decided or expires.
    is_waiting: bool,
}

impl Entry {
    pub(super) fn new(writer: &Arc<Writer>, record: ToolCallRecord) -> Self {
        Self {
            writer: Arc::clone(writer),
            record,
            ran: None,
            is_closed: false,
            is_rejected: false,
            may_have_begun: false,
            is_shared: false,
            is_continued: false,
            is_approved: false,
            is_waiting: false,
        }
    }

    /// Returns the id of the record.
    pub(in crate::executor) fn id(&self) -> CallId {
        self.record.id
    }

    /// Returns the id of the record, if the record belongs to this call.
    pub(in crate::executor) fn own_id(&self) -> Option<CallId> {
        self.is_own().then_some(self.record.id)
    }

    /// Returns whether the record belongs to this call.
    fn is_own(&self) -> bool {
        !self.is_continued || self.is_approved
    }

    /// Continues the record of a call that waits for the same approval.
    pub(in crate::executor) fn continue_record(&mut self, call: CallId) {
        self.record.id = call;
        self.is_shared = true;
        self.is_continued = true;
    }

    /// Sets whether the open approval refers to this record.
    pub(in crate::executor) fn set_waiting(&mut self, is_waiting: bool) {
        self.is_waiting = is_waiting;
    }

    /// Notes that the approval was used up for this call.
    pub(in crate::executor) fn mark_approved(&mut self) {
        self.is_approved = true;
    }

    /// Sets the arguments of the call after their repair.
    pub(in crate::executor) fn record_repaired(&mut self, arguments: &JsonObject) {
        let arguments = Value::Object(arguments.clone());
        let repaired = self.writer.redaction.arguments(&arguments);
        if repaired.contains(REDACTED) {
            // The redacted value was text in the original arguments, in which no keys are redacted.
            self.record.arguments.clone_from(&repaired);
        }
        self.record.repaired_arguments = Some(repaired);
    }

    /// Sets the arguments that an approver set in place of the call's own.
    pub(in crate::executor) fn record_edited(&mut self, arguments: &JsonObject) {
        let arguments = Value::Object(arguments.clone());
        self.record.approved_arguments = Some(self.writer.redaction.arguments(&arguments));
    }

    /// Records that the call waits for a decision.
    ///
    /// # Errors
    /// `unavailable` if the log cannot be written; the tool must not run.
    pub(in crate::executor) async fn record_pending(&mut self) -> Result<(), ToolFailure> {
        if self.is_continued {
            return Ok(());
        }
        self.is_shared = true;
        self.begin(CallStatus::Pending).await
    }

    /// Records that the tool is about to run.
    ///
    /// # Errors
    /// `unavailable` if the log cannot be written; the tool must not run.
    pub(in crate::executor) async fn record_running(&mut self) -> Result<(), ToolFailure> {
        self.begin(CallStatus::Running).await?;
        self.ran = Some(Instant::now());
        Ok(())
    }

    async fn begin(&mut self, status: CallStatus) -> Result<(), ToolFailure> {
        self.record.status = status;
        // Set before the write: the call may be dropped while it waits for the log.
        self.may_have_begun = true;
        let mut written = self.write().await;
        if self.is_continued && is_conflict(&written) {
            // The earlier call of the record has ended, for example because its caller cancelled
            // it.
            self.separate();
            written = self.write().await;
        }
        self.may_have_begun = written
            .as_ref()
            .err()
            .is_none_or(StoreError::is_unavailable);
        self.is_rejected = written.is_err();
        if written.is_ok()
            && let Some(repeated) = self.writer.failures.succeeded()
        {
            tracing::warn!(repeated, "Tool calls can be written to the call log again");
        }
        written.map_err(|error| {
            if let Some(repeated) = self.writer.failures.failed() {
                tracing::error!(
                    tool.name = %self.record.tool, %error, repeated,
                    "Cannot write a tool call to the call log; the call is rejected"
                );
            }
            ToolFailure::new(ErrorCode::Unavailable, "The call log cannot be written")
        })
    }

    /// Gives the call its own record, to which no other call and no approver writes.
    fn separate(&mut self) {
        self.record.id = CallId::new();
        self.is_shared = false;
        self.is_continued = false;
        self.may_have_begun = false;
    }

    /// Records the end of the call. Adds `record_id` to the metadata of `result`, and `"recorded":
    /// false` if the end is not recorded by `respond_by`: dropping this entry then records the end.
    pub(in crate::executor) async fn end(
        &mut self,
        result: &mut ToolResult,
        respond_by: TokioInstant,
    ) {
        self.close(result);
        let is_unavailable = result.error_code == Some(ErrorCode::Unavailable);
        let until = if is_unavailable && self.ran.is_none() {
            TokioInstant::now() + MAX_UNAVAILABLE_WAIT
        } else {
            respond_by
        };
        let is_recorded = timeout_at(until, self.write_end()).await == Ok(true);
        if !is_recorded {
            result.metadata.insert("recorded".to_owned(), json!(false));
        }
        let id = self.record.id.to_string();
        result.metadata.insert("record_id".to_owned(), json!(id));
    }

    /// Writes the end of the call. Returns whether it is recorded.
    async fn write_end(&mut self) -> bool {
        let waits = matches!(self.record.status, CallStatus::Pending | CallStatus::Denied);
        if !self.is_own() {
            if waits {
                // The record in the log already has this status.
                self.is_closed = true;
                return true;
            }
            self.separate();
        }
        let mut written = self.write().await;
        if is_conflict(&written) && waits {
            // The approver's process has written the end already.
            written = Ok(());
        } else if is_conflict(&written) && self.is_shared {
            // The record belongs to another call by now.
            self.separate();
            written = self.write().await;
        }
        let is_repeated = written.as_ref().is_err_and(StoreError::is_unavailable);
        self.is_closed = !(is_repeated && self.needs_end());
        match written {
            Ok(()) => true,
            Err(error) => {
                self.log_write_error(&error);
                false
            }
        }
    }

    /// Returns whether the log would otherwise show the call as unfinished, so that dropping this
    /// entry tries again to write the end.
    fn needs_end(&self) -> bool {
        self.record.status.is_final() && (self.ran.is_some() || self.may_have_begun)
    }

    async fn write(&self) -> Result<(), StoreError> {
        self.writer
            .write(self.record.clone(), self.use_of_record())
            .await
    }

    fn use_of_record(&self) -> RecordUse {
        match (self.is_shared, self.is_approved) {
            (false, _) => RecordUse::Own,
            (true, false) => RecordUse::Waiting,
            (true, true) => RecordUse::Approved,
        }
    }

    fn close(&mut self, result: &ToolResult) {
        let record = &mut self.record;
        record.status = match CallStatus::from_result(result) {
            // Nothing would complete the record: a nested call waits, or the approval names another
            // call.
            CallStatus::Pending if self.ran.is_some() || !self.is_waiting => CallStatus::Error,
            status => status,
        };
        record.completed_at = record.status.is_final().then(Timestamp::now);
        record.duration = self.ran.map(|ran| ran.elapsed());
        record.result = self.writer.redaction.result(&result.result);
        // Independent of the error code: a tool may fail with any code.
        let is_of_tool = !result.result.is_null() || self.ran.is_some();
        let error = result.error.as_deref();
        record.error = error.map(|error| self.writer.redaction.error(error, is_of_tool));
        record.error_code = result.error_code;
    }

    fn log_write_error(&self, error: &StoreError) {
        if self.is_rejected {
            return;
        }
        if let Some(repeated) = self.writer.failures.failed() {
            tracing::error!(
                call.record = %self.record.id, tool.name = %self.record.tool, %error, repeated,
                "Cannot write the end of a tool call to the call log"
            );
        }
    }
}

impl Drop for Entry {
    /// Records that the caller cancelled the call or stopped waiting for the result.
    fn drop(&mut self) {
        if self.is_closed || !self.is_own() {
            return;
        }
        if !self.record.status.is_final() {
            self.record.status = CallStatus::Cancelled;
            self.record.completed_at = Some(Timestamp::now());
            self.record.duration = self.ran.map(|ran| ran.elapsed());
            self.record.error_code = Some(ErrorCode::Cancelled);
        }
        // Without a runtime the process is ending; the next process finds the call unfinished.
        let Ok(runtime) = Handle::try_current() else {
            return;
        };
        let (writer, mut record) = (Arc::clone(&self.writer), self.record.clone());
        let use_of_record = self.use_of_record();
        let has_run = self.ran.is_some();
        let may_separate = self.is_shared && (self.is_continued || has_run);
        let permit = if !has_run && self.needs_end() {
            Arc::clone(&writer.repeats).try_acquire_owned().ok()
        } else {
            None
        };
        let background = async move {
            let write = |record: &ToolCallRecord, used| writer.write(record.clone(), used);
            let mut written = if has_run || permit.is_some() {
                // No other call and no approver would end the record.
                write_once_available(|| write(&record, use_of_record)).await
            } else {
                write(&record, use_of_record).await
            };
            if may_separate && is_conflict(&written) {
                record.id = CallId::new();
                written = write_once_available(|| write(&record, RecordUse::Own)).await;
            }
            // With a conflict, the record already has an end.
            if let Err(error) = written
                && !error.is_conflict()
                && let Some(repeated) = writer.failures.failed()
            {
                tracing::error!(
                    call.record = %record.id, %error, repeated,
                    "Cannot write the end of a tool call to the call log"
                );
            }
        };
        self.writer.background.spawn_on(background, &runtime);
    }
}

/// How a call uses its record.
#[derive(Clone, Copy)]
enum RecordUse {
    /// Only the call writes to the record.
    Own,
    /// The call shares the record with calls that wait for the same approval.
    Waiting,
    /// The approval was used up for the call, so the record belongs to the call.
    Approved,
}

impl Writer {
    /// Returns the log's own future: the future of an `async fn` would hold the record a second
    /// time.
    fn write(
        &self,
        record: ToolCallRecord,
        used: RecordUse,
    ) -> BoxFuture<'_, Result<(), StoreError>> {
        match used {
            RecordUse::Own => self.log.record_local_call(record),
            RecordUse::Waiting => self.log.record_waiting_call(record),
            RecordUse::Approved => self.log.record_call(record),
        }
    }
}

fn is_conflict(written: &Result<(), StoreError>) -> bool {
    written.as_ref().is_err_and(StoreError::is_conflict)
}
