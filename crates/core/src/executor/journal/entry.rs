use std::sync::Arc;
use std::time::Instant;

use futures_util::future::BoxFuture;
use serde_json::json;
use tokio::runtime::Handle;

use super::Redaction;
use crate::store::{CallId, CallLog, CallStatus, StoreError, Timestamp, ToolCallRecord};
use crate::tool::{ErrorCode, ToolFailure, ToolResult};

/// What the call log says of one call. Dropped before its end it says `cancelled`.
pub(in crate::executor) struct Entry {
    log: Arc<dyn CallLog>,
    redaction: Arc<Redaction>,
    record: ToolCallRecord,
    /// When the tool began to run.
    ran: Option<Instant>,
    /// The log has the end, or has refused it.
    is_over: bool,
    /// The record is that of an earlier call, which waits for the same approval.
    is_anothers: bool,
    /// Others may record something of this call: whoever decides on it, say.
    is_shared: bool,
    /// That approval was used up for this call: the record is this call's, unless it has ended.
    has_approval: bool,
    /// Whoever decides on the open approval ends the record, or it ends when that expires.
    waits: bool,
}

impl Entry {
    pub(super) fn new(
        log: Arc<dyn CallLog>,
        redaction: Arc<Redaction>,
        record: ToolCallRecord,
    ) -> Self {
        Self {
            log,
            redaction,
            record,
            ran: None,
            is_over: false,
            is_anothers: false,
            is_shared: false,
            has_approval: false,
            waits: false,
        }
    }

    /// The id of the record.
    pub(in crate::executor) fn id(&self) -> CallId {
        self.record.id
    }

    /// The id of the record, if it is this call's.
    pub(in crate::executor) fn own_id(&self) -> Option<CallId> {
        (!self.is_anothers).then_some(self.record.id)
    }

    /// Goes on under the id of a call that waits for the same approval. It stays that call's
    /// until the tool runs.
    pub(in crate::executor) fn go_on_as(&mut self, call: CallId) {
        self.record.id = call;
        self.is_anothers = true;
        self.is_shared = true;
    }

    /// Whether the approval that is open names the record.
    pub(in crate::executor) fn waits(&mut self, waits: bool) {
        self.waits = waits;
    }

    /// The approval was used up for this call, which needs no tool to run.
    pub(in crate::executor) fn approved(&mut self) {
        self.has_approval = true;
    }

    /// Somebody is asked whether the tool may run.
    ///
    /// # Errors
    /// `unavailable`: the tool must not run.
    pub(in crate::executor) async fn pending(&mut self) -> Result<(), ToolFailure> {
        if self.is_anothers {
            return Ok(());
        }
        self.is_shared = true;
        self.begin(CallStatus::Pending).await
    }

    /// The tool runs next.
    ///
    /// # Errors
    /// `unavailable`: it must not.
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
            // Its caller had given it up, say: this call is one of its own.
            written = self.record_anew().await;
        }
        written.map_err(|error| {
            tracing::error!(
                tool.name = %self.record.tool, %error,
                "A call is not in the call log, and does not run"
            );
            ToolFailure::new(ErrorCode::Unavailable, "The call log cannot be written")
        })
    }

    /// Records the call as one of its own.
    async fn record_anew(&mut self) -> Result<(), StoreError> {
        self.record.id = CallId::new();
        self.write().await
    }

    /// The call has ended with `result`, whose metadata gets the `record_id`, and
    /// `"recorded": false` where that end could not be recorded.
    pub(in crate::executor) async fn end(&mut self, result: &mut ToolResult) {
        self.close(result);
        let waits = matches!(self.record.status, CallStatus::Pending | CallStatus::Denied);
        let written = match self.is_anothers {
            // What it says already.
            true if waits => Ok(()),
            true if !self.has_approval => self.record_anew().await,
            is_anothers => match self.write().await {
                Err(error) if is_anothers && error.is_conflict() => self.record_anew().await,
                written => written,
            },
        };
        self.is_over = true;
        // Whoever decided may have recorded that first.
        if let Err(error) = written
            && !(waits && error.is_conflict())
        {
            self.lament(&error);
            result.metadata.insert("recorded".to_owned(), json!(false));
        }
        let id = self.record.id.to_string();
        result.metadata.insert("record_id".to_owned(), json!(id));
    }

    async fn write(&self) -> Result<(), StoreError> {
        write(&*self.log, self.record.clone(), self.is_shared).await
    }

    fn close(&mut self, result: &ToolResult) {
        let record = &mut self.record;
        record.status = match status_of(result) {
            // Nobody would end it: a call that it made waits, or one that asked before.
            CallStatus::Pending if self.ran.is_some() || !self.waits => CallStatus::Error,
            status => status,
        };
        record.completed_at = record.status.is_final().then(Timestamp::now);
        record.duration = self.ran.map(|ran| ran.elapsed());
        record.result = self.redaction.result(&result.result);
        // Whatever its code: a tool may fail with any of them.
        let is_of_tool = !result.result.is_null() || self.ran.is_some();
        let error = result.error.as_deref();
        record.error = error.map(|error| self.redaction.error(error, is_of_tool));
        record.error_code = result.error_code;
    }

    fn lament(&self, error: &StoreError) {
        tracing::error!(
            call.record = %self.record.id, tool.name = %self.record.tool, %error,
            "The end of a call is not in the call log"
        );
    }
}

impl Drop for Entry {
    /// The caller has given the call up, or the answer to it.
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
        // Without a runtime the process ends, and the next finds the call unfinished.
        if let Ok(runtime) = Handle::try_current() {
            let (log, record) = (Arc::clone(&self.log), self.record.clone());
            let is_shared = self.is_shared;
            runtime.spawn(async move {
                let id = record.id;
                if let Err(error) = write(&*log, record, is_shared).await {
                    tracing::error!(
                        call.record = %id, %error,
                        "The end of a call that was given up is not in the call log"
                    );
                }
            });
        }
    }
}

/// Returns the log's future itself: an `async fn` would hold the record a second time.
fn write<'a>(
    log: &'a dyn CallLog,
    record: ToolCallRecord,
    is_shared: bool,
) -> BoxFuture<'a, Result<(), StoreError>> {
    match is_shared {
        true => log.record_call(record),
        false => log.record_own_call(record),
    }
}

/// How a call has ended; one that needs an approval waits for it.
fn status_of(result: &ToolResult) -> CallStatus {
    match result.error_code {
        _ if result.success => CallStatus::Success,
        Some(ErrorCode::Denied) => CallStatus::Denied,
        Some(ErrorCode::Cancelled) => CallStatus::Cancelled,
        Some(ErrorCode::ApprovalRequired) => CallStatus::Pending,
        _ => CallStatus::Error,
    }
}
