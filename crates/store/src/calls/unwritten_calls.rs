use pillion_core::store::{CallId, ToolCallRecord};

/// The current state of calls that wait to be written to the database.
#[derive(Debug, Default)]
pub(crate) struct UnwrittenCalls {
    /// The unwritten calls that match a filter.
    pub(crate) matching_calls: Vec<ToolCallRecord>,
    /// The IDs of all unwritten calls, whose rows in the database are outdated.
    pub(crate) ids: Vec<CallId>,
}
