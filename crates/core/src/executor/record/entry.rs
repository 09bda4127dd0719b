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

/// Timeout for writing the end of a call to the call log if the call failed as `unavailable` before
/// its tool ran. The timeout is short, because such a call has already waited for a log or store
/// that did not respond.
const MAX_UNAVAILABLE_WAIT: Duration = Duration::from_millis(100);

/// The call-log entry of one call. Dropping the entry before the call has ended records
/// `cancelled`.
///
/// Calls that wait for the same approval share one record. The record belongs to the first of these
/// calls until one of them uses up the approval. Then the record belongs to that call, which runs.
pub(in crate::executor) struct Entry {
    writer: Arc<Writer>,
    record: ToolCallRecord,
    /// The time at which the tool started; `None` before that.
    started_at: Option<Instant>,
    /// Whether the end of the call was written, or rejected by the log.
    is_closed: bool,
    /// Whether the log reported that it could not write the beginning of the call.
    is_rejected: bool,
    /// Whether the log might contain the beginning of the call, because a write was started.
    may_have_begun: bool,
    /// Whether the approver, or calls that wait for the same approval, can write to the record.
    is_shared: bool,
    /// Whether an earlier call, which waits for the same approval, has begun the record.
    is_continued: bool,
    /// Whether this call has used up its approval.
    is_approved: bool,
    /// Whether an open approval refers to this record. The decision or the expiry of the approval
    /// completes the record.
    is_waiting: bool,
}

impl Entry {
    pub(super) fn new(writer: &Arc<Writer>, record: ToolCallRecord) -> Self {
        Self {
            writer: Arc::clone(writer),
            record,
            started_at: None,
            is_closed: false,
            is_rejected: false,
            may_have_begun: false,
            is_shared: false,
            is_continued: false,
            is_approved: false,
            is_waiting: false,
        }
    }

    /// Returns the ID of the record.
    pub(in crate::executor) fn id(&self) -> CallId {
        self.record.id
    }

    /// Returns the ID of the record, if the record belongs to this call.
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

    /// Notes that this call has used up its approval.
    pub(in crate::executor) fn mark_approved(&mut self) {
        self.is_approved = true;
    }

    /// Sets the arguments of the call after their repair.
    pub(in crate::executor) fn record_repaired_arguments(&mut self, arguments: &JsonObject) {
        let arguments = Value::Object(arguments.clone());
        let repaired_arguments = self.writer.redaction.arguments(&arguments);
        if repaired_arguments.contains(REDACTED) {
            // The recorded original arguments are replaced, too: in the original arguments, the
            // redacted value is part of a text, in which no keys can be redacted.
            self.record.arguments.clone_from(&repaired_arguments);
        }
        self.record.repaired_arguments = Some(repaired_arguments);
    }

    /// Sets the arguments that an approver set in place of the call's own.
    pub(in crate::executor) fn record_edited_arguments(&mut self, arguments: &JsonObject) {
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
        self.started_at = Some(Instant::now());
        Ok(())
    }

    async fn begin(&mut self, status: CallStatus) -> Result<(), ToolFailure> {
        self.record.status = status;
        // The flag is set before the write, because the call may be dropped while it waits for the
        // log.
        self.may_have_begun = true;
        let mut outcome = self.write().await;
        if self.is_continued && is_conflict(&outcome) {
            // A conflict means that the earlier call with this record has ended, for example
            // because its caller cancelled it. The new call therefore gets its own record.
            self.separate();
            outcome = self.write().await;
        }
        let error = outcome.as_ref().err();
        self.may_have_begun = error.is_none_or(StoreError::is_unavailable);
        self.is_rejected = outcome.is_err();
        if outcome.is_ok()
            && let Some(repeated) = self.writer.failure_log_limit.record_success()
        {
            tracing::warn!(repeated, "Tool calls can be written to the call log again");
        }
        outcome.map_err(|error| {
            if let Some(repeated) = self.writer.failure_log_limit.record_failure() {
                tracing::error!(
                    tool.name = %self.record.tool, %error, repeated,
                    "Cannot write a tool call to the call log; the call is rejected"
                );
            }
            let tool = &self.record.tool;
            let message = format!("Tool '{tool}' has not run: the call log cannot be written");
            ToolFailure::new(ErrorCode::Unavailable, message)
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
    /// false` if the end is not recorded by `response_deadline`: dropping this entry then records
    /// the end.
    pub(in crate::executor) async fn end(
        &mut self,
        result: &mut ToolResult,
        response_deadline: TokioInstant,
    ) {
        self.close(result);
        let is_unavailable = result.error_code == Some(ErrorCode::Unavailable);
        let deadline = if is_unavailable && self.started_at.is_none() {
            TokioInstant::now() + MAX_UNAVAILABLE_WAIT
        } else {
            response_deadline
        };
        let is_recorded = timeout_at(deadline, self.write_end()).await == Ok(true);
        if !is_recorded {
            result.metadata.insert("recorded".to_owned(), json!(false));
        }
        let id = self.record.id.to_string();
        result.metadata.insert("record_id".to_owned(), json!(id));
    }

    /// Writes the end of the call. Returns whether the end is recorded.
    async fn write_end(&mut self) -> bool {
        let needs_decision = matches!(self.record.status, CallStatus::Pending | CallStatus::Denied);
        if !self.is_own() {
            if needs_decision {
                // Nothing is written, because the record in the log already has this status.
                self.is_closed = true;
                return true;
            }
            self.separate();
        }
        let mut outcome = self.write().await;
        if is_conflict(&outcome) && needs_decision {
            // A conflict is ignored: it means that the approver's process has already written the
            // end of the call.
            outcome = Ok(());
        } else if is_conflict(&outcome) && self.is_shared {
            // A conflict means that the shared record now belongs to another call, so this call
            // gets its own record.
            self.separate();
            outcome = self.write().await;
        }
        let is_retryable = outcome.as_ref().is_err_and(StoreError::is_unavailable);
        self.is_closed = !(is_retryable && self.needs_end());
        if let Err(error) = &outcome {
            self.log_write_error(error);
        }
        outcome.is_ok()
    }

    /// Returns whether the log still shows the call as unfinished. Dropping this entry then tries
    /// again to write the end of the call.
    fn needs_end(&self) -> bool {
        self.record.status.is_final() && (self.started_at.is_some() || self.may_have_begun)
    }

    async fn write(&self) -> Result<(), StoreError> {
        let record_use = self.use_of_record();
        self.writer.write(self.record.clone(), record_use).await
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
            // The record must not stay pending if nothing would complete it. That is the case if a
            // nested call, not this call, waits for an approval, or if the open approval names the
            // record of another call.
            CallStatus::Pending if self.started_at.is_some() || !self.is_waiting => {
                CallStatus::Error
            }
            status => status,
        };
        record.completed_at = record.status.is_final().then(Timestamp::now);
        record.duration = self.started_at.map(|started_at| started_at.elapsed());
        record.result = self.writer.redaction.result(&result.result);
        // The error code does not reveal whether the tool wrote the error message, because a tool
        // may fail with any code.
        let is_tool_message = !result.result.is_null() || self.started_at.is_some();
        let error = result.error.as_deref();
        record.error = error.map(|error| self.writer.redaction.error(error, is_tool_message));
        record.error_code = result.error_code;
    }

    fn log_write_error(&self, error: &StoreError) {
        if self.is_rejected {
            return;
        }
        if let Some(repeated) = self.writer.failure_log_limit.record_failure() {
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
            self.record.duration = self.started_at.map(|started_at| started_at.elapsed());
            self.record.error_code = Some(ErrorCode::Cancelled);
        }
        // Without a runtime, the process is ending, so nothing is written: the next process finds
        // the call unfinished.
        let Ok(runtime) = Handle::try_current() else {
            return;
        };
        let (writer, mut record) = (Arc::clone(&self.writer), self.record.clone());
        let use_of_record = self.use_of_record();
        let has_run = self.started_at.is_some();
        let may_separate = self.is_shared && (self.is_continued || has_run);
        let permit = if !has_run && self.needs_end() {
            Arc::clone(&writer.repeat_permits).try_acquire_owned().ok()
        } else {
            None
        };
        let write_in_background = async move {
            let write =
                |record: &ToolCallRecord, record_use| writer.write(record.clone(), record_use);
            let mut outcome = if has_run || permit.is_some() {
                // The write is repeated while the store is unavailable, because no other call and
                // no approver would end the record.
                write_once_available(|| write(&record, use_of_record)).await
            } else {
                write(&record, use_of_record).await
            };
            if may_separate && is_conflict(&outcome) {
                record.id = CallId::new();
                outcome = write_once_available(|| write(&record, RecordUse::Own)).await;
            }
            // A conflict is no failure: it shows that the record already has an end.
            if let Err(error) = outcome
                && !error.is_conflict()
                && let Some(repeated) = writer.failure_log_limit.record_failure()
            {
                tracing::error!(
                    call.record = %record.id, %error, repeated,
                    "Cannot write the end of a tool call to the call log"
                );
            }
        };
        let background = &self.writer.background;
        background.spawn_on(write_in_background, &runtime);
    }
}

/// How a call uses its record.
#[derive(Clone, Copy)]
enum RecordUse {
    /// Only the call writes to the record.
    Own,
    /// The call shares the record with calls that wait for the same approval.
    Waiting,
    /// The call has used up the approval, so the record belongs to the call.
    Approved,
}

impl Writer {
    /// Returns the future of the call log directly, because the future of an `async fn` would hold
    /// a second copy of the record.
    fn write(
        &self,
        record: ToolCallRecord,
        record_use: RecordUse,
    ) -> BoxFuture<'_, Result<(), StoreError>> {
        match record_use {
            RecordUse::Own => self.log.record_local_call(record),
            RecordUse::Waiting => self.log.record_waiting_call(record),
            RecordUse::Approved => self.log.record_call(record),
        }
    }
}

fn is_conflict(outcome: &Result<(), StoreError>) -> bool {
    outcome.as_ref().is_err_and(StoreError::is_conflict)
}
