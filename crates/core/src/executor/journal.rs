//! Records every call in a call log: before its tool runs, and when the call has ended.

mod entry;
mod redaction;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use crate::RepeatLimit;
use crate::registry::RegisteredTool;
use crate::store::{CallLog, ProcessLife, ToolCallRecord};
use crate::tool::{CallContext, ErrorCode, ToolCall, ToolFailure, ToolOrigin};
pub(super) use entry::Entry;
pub use redaction::Redaction;

/// The call could not be recorded before its deadline.
pub(super) fn late() -> ToolFailure {
    let message = "The call log was not written before the call's deadline";
    ToolFailure::new(ErrorCode::Unavailable, message)
}

/// Writes the calls of an executor to a call log.
///
/// A tool runs only after its call is recorded: if the log cannot be written, the call ends as
/// `unavailable`. A result that cannot be recorded is still returned, because the tool has run,
/// with `"recorded": false` in its metadata.
#[derive(Clone)]
pub struct Journal {
    log: Arc<dyn CallLog>,
    process: ProcessLife,
    redaction: Arc<Redaction>,
    failures: Arc<RepeatLimit>,
}

impl Journal {
    /// Creates a journal of this process that writes to `log`. `redaction` determines how much of
    /// arguments and results is recorded.
    #[must_use]
    pub fn new(log: Arc<dyn CallLog>, process: ProcessLife, redaction: Redaction) -> Self {
        Self {
            log,
            process,
            redaction: Arc::new(redaction),
            failures: Arc::default(),
        }
    }

    /// Creates the entry of a call, without writing anything.
    pub(super) fn open(
        &self,
        tool: Option<&RegisteredTool>,
        call: &ToolCall,
        context: &CallContext,
    ) -> Entry {
        let name = tool.map_or(call.name.as_str(), |tool| tool.name().as_str());
        let arguments = self.redaction.arguments(&call.arguments);
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
        Entry::new(self, record)
    }
}
