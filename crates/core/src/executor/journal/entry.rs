use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use pillion_deadline::timeout_at;
use serde_json::{Value, json};
use tokio::runtime::Handle;
use tokio::time::Instant as TokioInstant;

use super::Writer;
use crate::store::{
    CallId, CallStatus, StoreError, Timestamp, ToolCallRecord, write_once_available,
};
use crate::tool::{ErrorCode, JsonObject, ToolFailure, ToolResult};

/// How long a call that ended as `unavailable` before its tool ran waits for the log: it has already
/// waited for a log or store that did not respond.
const MAX_UNAVAILABLE_WAIT: Duration = Duration::from_millis(100);

/// The call-log entry of one call. Dropping it before the call has ended records `cancelled`.
pub(in crate::executor) struct Entry {
    writer: Arc<Writer>,
    record: ToolCallRecord,
    /// When the tool started.
    ran: Option<Instant>,
    /// Whether the end of the call was written, or rejected by the log.
    is_over: bool,
    /// Whether the beginning of the call could not be written, which the log has said.
    is_rejected: bool,
    /// Whether the record is that of an earlier call, which waits for the same approval.
    is_anothers: bool,
    /// Whether others may write to this record, such as the person who decides on the approval.
    is_shared: bool,
    /// Whether the earlier call's approval was used up for this call, which then owns the record,
    /// unless that has ended.
    has_approval: bool,
    /// Whether the open approval completes the record, when it is decided or expires.
    waits: bool,
}

impl Entry {
    pub(super) fn new(writer: &Arc<Writer>, record: ToolCallRecord) -> Self {
        Self {
            writer: Arc::clone(writer),
            record,
            ran: None,
            is_over: false,
            is_rejected: false,
            is_anothers: false,
            is_shared: false,
            has_approval: false,
            waits: false,
        }
    }

    /// Returns the id of the record.
    pub(in crate::executor) fn id(&self) -> CallId {
        self.record.id
    }

    /// Returns the id of the record, if the record belongs to this call.
    pub(in crate::executor) fn own_id(&self) -> Option<CallId> {
        (!self.is_anothers).then_some(self.record.id)
    }

    /// Continues the record of a call that waits for the same approval. The record belongs to that
    /// call until the tool runs.
    pub(in crate::executor) fn continue_record(&mut self, call: CallId) {
        self.record.id = call;
        self.is_anothers = true;
        self.is_shared = true;
    }

    /// Sets whether the open approval refers to this record.
    pub(in crate::executor) fn waits(&mut self, waits: bool) {
        self.waits = waits;
    }

    /// Notes that the approval was used up for this call, whose tool did not need to run.
    pub(in crate::executor) fn approved(&mut self) {
        self.has_approval = true;
    }

    /// Sets the arguments that an approver set in place of the call's own.
    pub(in crate::executor) fn edited(&mut self, arguments: &JsonObject) {
        let arguments = Value::Object(arguments.clone());
        self.record.approved_arguments = Some(self.writer.redaction.arguments(&arguments));
    }

    /// Records that the call waits for a decision.
    ///
    /// # Errors
    /// `unavailable` if the log cannot be written; the tool must not run.
    pub(in crate::executor) async fn pending(&mut self) -> Result<(), ToolFailure> {
        if self.is_anothers {
            return Ok(());
        }
        self.is_shared = true;
        self.begin(CallStatus::Pending).await
    }

    /// Records that the tool is about to run.
    ///
    /// # Errors
    /// `unavailable` if the log cannot be written; the tool must not run.
    pub(in crate::executor) async fn running(&mut self) -> Result<(), ToolFailure> {
        self.begin(CallStatus::Running).await?;
        self.ran = Some(Instant::now());
        Ok(())
    }

    async fn begin(&mut self, status: CallStatus) -> Result<(), ToolFailure> {
        self.record.status = status;
        let mut written = self.write().await;
        let had_ended = written.as_ref().is_err_and(StoreError::is_conflict);
        if std::mem::take(&mut self.is_anothers) && had_ended {
            // The earlier call has ended, for example because its caller cancelled it: use a new
            // record.
            written = self.record_under_new_id().await;
        }
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

    /// Writes the call under a new id.
    async fn record_under_new_id(&mut self) -> Result<(), StoreError> {
        self.record.id = CallId::new();
        self.is_anothers = false;
        self.write().await
    }

    /// Records the end of the call. Adds `record_id` to the metadata of `result`, and `"recorded":
    /// false` if the end is not recorded by `respond_by`: dropping this entry then records it.
    pub(in crate::executor) async fn end(
        &mut self,
        result: &mut ToolResult,
        respond_by: TokioInstant,
    ) {
        self.close(result);
        let is_unavailable = result.error_code == Some(ErrorCode::Unavailable);
        let until = match is_unavailable && self.ran.is_none() {
            true => TokioInstant::now() + MAX_UNAVAILABLE_WAIT,
            false => respond_by,
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
        let written = match self.is_anothers {
            // The record already has this status.
            true if waits => Ok(()),
            true if !self.has_approval => self.record_under_new_id().await,
            is_anothers => match self.write().await {
                Err(error) if is_anothers && error.is_conflict() => {
                    self.record_under_new_id().await
                }
                written => written,
            },
        };
        // Dropping this entry tries again to record the end of a tool that ran.
        let is_repeated = written.as_ref().is_err_and(StoreError::is_unavailable);
        self.is_over = !is_repeated || self.ran.is_none();
        match written {
            Ok(()) => true,
            // The approver's process may have written the end already.
            Err(error) if waits && error.is_conflict() => true,
            Err(error) => {
                self.log_write_error(&error);
                false
            }
        }
    }

    async fn write(&self) -> Result<(), StoreError> {
        self.writer.write(self.record.clone(), self.is_shared).await
    }

    fn close(&mut self, result: &ToolResult) {
        let record = &mut self.record;
        record.status = match CallStatus::from_result(result) {
            // Nothing would complete the record: a nested call waits, or the approval names another
            // call.
            CallStatus::Pending if self.ran.is_some() || !self.waits => CallStatus::Error,
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
        if self.is_over || self.is_anothers {
            return;
        }
        if !self.record.status.is_final() {
            self.record.status = CallStatus::Cancelled;
            self.record.completed_at = Some(Timestamp::now());
            self.record.duration = self.ran.map(|ran| ran.elapsed());
            self.record.error_code = Some(ErrorCode::Cancelled);
        }
        // Without a runtime the process is ending; the next process finds the call unfinished.
        if let Ok(runtime) = Handle::try_current() {
            let (writer, record) = (Arc::clone(&self.writer), self.record.clone());
            let (is_shared, has_run) = (self.is_shared, self.ran.is_some());
            let background = async move {
                let id = record.id;
                let written = match has_run {
                    // Nothing else would end the record.
                    true => write_once_available(|| writer.write(record.clone(), is_shared)).await,
                    false => writer.write(record, is_shared).await,
                };
                // With a conflict, the record already has an end.
                if let Err(error) = written
                    && !error.is_conflict()
                    && let Some(repeated) = writer.failures.failed()
                {
                    tracing::error!(
                        call.record = %id, %error, repeated,
                        "Cannot write the end of a tool call to the call log"
                    );
                }
            };
            self.writer.background.spawn_on(background, &runtime);
        }
    }
}

impl Writer {
    /// Returns the log's future itself: an `async fn` would hold the record a second time.
    fn write(
        &self,
        record: ToolCallRecord,
        is_shared: bool,
    ) -> BoxFuture<'_, Result<(), StoreError>> {
        match is_shared {
            true => self.log.record_call(record),
            false => self.log.record_local_call(record),
        }
    }
}
