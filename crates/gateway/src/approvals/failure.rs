use pillion_core::RepeatLimit;
use pillion_core::executor::ApprovalRequest;
use pillion_core::store::{ApprovalRecord, StoreError};
use pillion_core::tool::{ErrorCode, ToolFailure};
use serde_json::json;

use crate::timestamp::format_timestamp;

/// Creates the failure of a call whose approval is not decided yet.
pub(super) fn for_undecided(record: &ApprovalRecord, request: &ApprovalRequest) -> ToolFailure {
    let ApprovalRecord { tool, id, .. } = record;
    let message = format!("The call to tool '{tool}' needs approval {id}");
    let expires_at = format_timestamp(record.expires_at);
    ToolFailure::new(ErrorCode::ApprovalRequired, message)
        .with_metadata("approval_id", json!(id))
        .with_metadata("approval_expires_at", json!(expires_at))
        .with_metadata("arguments", json!(request.arguments))
}

/// Creates the failure of a call whose approval was denied.
pub(super) fn for_denied(record: &ApprovalRecord) -> ToolFailure {
    let mut message = format!("The call to tool '{}' was denied", record.tool);
    let decision = record.decision.as_ref();
    if let Some(reason) = decision.and_then(|decision| decision.reason.as_deref()) {
        message += ": ";
        message += reason;
    }
    ToolFailure::new(ErrorCode::Denied, message).with_metadata("approval_id", json!(record.id))
}

/// Creates the failure of a call whose approval was used by another call.
pub(super) fn for_used(record: &ApprovalRecord) -> ToolFailure {
    let ApprovalRecord { tool, id, .. } = record;
    let message = format!("Another call to tool '{tool}' has already used approval {id}");
    ToolFailure::new(ErrorCode::Cancelled, message)
}

/// Creates the failure of a call whose decision cannot be read because the task that reads the
/// store has ended.
pub(super) fn for_unread_decision() -> ToolFailure {
    ToolFailure::new(
        ErrorCode::Unavailable,
        "The decision on the approval of the call cannot be read: send the call again",
    )
}

/// Creates the failure of a call whose approval has unreadable arguments.
pub(super) fn for_unreadable_arguments() -> ToolFailure {
    ToolFailure::new(
        ErrorCode::Unavailable,
        "The arguments that the approver has set for the call cannot be read: the store is damaged",
    )
}

/// Creates the failure of a call whose approval cannot be read from or written to the store.
#[expect(clippy::needless_pass_by_value, reason = "called by `map_err`")]
pub(super) fn for_store_error(error: StoreError) -> ToolFailure {
    static FAILURE_LOG_LIMIT: RepeatLimit = RepeatLimit::new();
    if let Some(repeated) = FAILURE_LOG_LIMIT.record_failure() {
        tracing::error!(%error, repeated, "Cannot read or write approvals in the store");
    }
    ToolFailure::new(
        ErrorCode::Unavailable,
        "Approvals cannot be read or written, because the store failed: try again later",
    )
}
