//! Records every call in a call log: before its tool runs, and when the call has ended.

mod entry;
mod redaction;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use tokio::sync::Semaphore;
use tokio_util::task::TaskTracker;

use crate::RepeatLimit;
use crate::registry::RegisteredTool;
use crate::store::{CallLog, ProcessRun, ToolCallRecord};
use crate::tool::{CallContext, ErrorCode, ToolCall, ToolFailure, ToolOrigin};
pub(super) use entry::Entry;
pub use redaction::Redaction;

/// Maximum number of calls for which the write of the end is being retried, of calls whose tool did
/// not run.
const MAX_REPEATED_ENDS: usize = 1_000;

/// Returns the failure of a call that could not be recorded before its deadline.
pub(super) fn late() -> ToolFailure {
    let message = "The call log was not written before the call's deadline";
    ToolFailure::new(ErrorCode::Unavailable, message)
}

/// Writes the calls of an executor to a call log.
///
/// A tool runs only after its call is recorded: if the log cannot be written, the call ends as
/// `unavailable`. A result that cannot be recorded is still returned, because the tool has run,
/// with `"recorded": false` in its metadata. A result that is not recorded [in
/// time](super::RESPONSE_ALLOWANCE) is returned in the same way; its record is then written [in the
/// background](Self::with_background).
#[derive(Clone)]
pub struct Journal {
    writer: Arc<Writer>,
    process: ProcessRun,
}

/// The part of a journal that the journal's entries share.
#[derive(Clone)]
struct Writer {
    log: Arc<dyn CallLog>,
    redaction: Redaction,
    /// Limits the log lines about records that cannot be written.
    failures: Arc<RepeatLimit>,
    /// Runs writes in the background for calls that have ended.
    background: TaskTracker,
    /// Limits the calls without a result for which the write of the end is retried: while the log
    /// fails, no tool runs, but any number of calls is rejected.
    repeats: Arc<Semaphore>,
}

impl Journal {
    /// Creates a journal of this process that writes to `log`. `redaction` determines how much of
    /// arguments and results is recorded.
    #[must_use]
    pub fn new(log: Arc<dyn CallLog>, process: ProcessRun, redaction: Redaction) -> Self {
        let writer = Writer {
            log,
            redaction,
            failures: Arc::default(),
            background: TaskTracker::new(),
            repeats: Arc::new(Semaphore::new(MAX_REPEATED_ENDS)),
        };
        Self {
            writer: Arc::new(writer),
            process,
        }
    }

    /// Returns a journal that runs writes in the background on `background`. A program that exits
    /// must wait for this tracker.
    #[must_use]
    pub fn with_background(mut self, background: TaskTracker) -> Self {
        Arc::make_mut(&mut self.writer).background = background;
        self
    }

    /// Creates the entry of a call, without writing anything.
    pub(super) fn open(
        &self,
        tool: Option<&RegisteredTool>,
        call: &ToolCall,
        context: &CallContext,
    ) -> Entry {
        let name = tool.map_or(call.name.as_str(), |tool| tool.name().as_str());
        let arguments = self.writer.redaction.arguments(&call.arguments);
        let mut record = ToolCallRecord::begin(self.process.clone(), name, arguments);
        record.server = tool.and_then(|tool| match tool.origin() {
            ToolOrigin::Mcp { server_label, .. } => Some(server_label.clone()),
            ToolOrigin::Native => None,
        });
        if let Some(id) = context.record {
            record.id = id;
        }
        record.parent = context.nesting.as_ref().and_then(|nesting| nesting.parent);
        record.user.clone_from(&context.user);
        record.user_is_verified = context.verified_user().is_some();
        record.principal.clone_from(&context.principal);
        record.caller.clone_from(&context.caller);
        Entry::new(&self.writer, record)
    }
}
