//! Routes under `/api/v1/approvals`: calls that need approval.

pub(super) mod decide;
pub(super) mod list;
pub(super) mod show;

use pillion_core::store::{ApprovalRecord, Timestamp};
use pillion_wire::ApprovalEntry;

use crate::routes::error::{CONFLICT, NOT_FOUND, route_error};
use crate::routes::page::stored_json;
use pillion_gateway::timestamp::format_timestamp;

route_error! {
    /// Why an approval is not shown or decided.
    #[derive(Debug, thiserror::Error)]
    enum ApprovalError {
        #[error("There is no approval with this ID")]
        Unknown => NOT_FOUND,
        #[error("{reason}")]
        Conflict { reason: String } => CONFLICT,
    }
}

/// Returns the size of an approval's stored JSON.
fn bytes(record: &ApprovalRecord) -> usize {
    let length = |text: &Option<String>| text.as_ref().map_or(0, String::len);
    let edited = record.decision.as_ref();
    let edited = edited.map_or(0, |decision| length(&decision.arguments));
    record.arguments.len() + length(&record.forwarded) + edited
}

/// Converts a stored approval to its form in the API. Arguments and parameters of more than
/// `max_shown` bytes of JSON are absent.
fn entry(record: ApprovalRecord, max_shown: usize) -> ApprovalEntry {
    let status = record.status(Timestamp::now()).to_owned();
    let shown = |text: &str| (text.len() <= max_shown).then(|| stored_json(text));
    let arguments = shown(&record.arguments);
    let has_arguments = arguments.is_some();
    let (decided_by, decided_at, reason, approved_arguments) = match record.decision {
        None => (None, None, None, None),
        Some(decision) => (
            Some(decision.by),
            Some(format_timestamp(decision.at)),
            decision.reason,
            decision
                .arguments
                .filter(|_| has_arguments)
                .and_then(|edited| shown(&edited)),
        ),
    };
    ApprovalEntry {
        id: record.id,
        status,
        tool: record.tool,
        server: record.server,
        user: record.user,
        user_is_verified: record.user_is_verified,
        principal: record.principal,
        channel: record.channel,
        arguments,
        forwarded: record.forwarded.as_deref().and_then(shown),
        approved_arguments,
        arguments_hash: record.arguments_hash,
        call_id: record.call.map(|call| call.to_string()),
        created_at: format_timestamp(record.created_at),
        expires_at: format_timestamp(record.expires_at),
        decided_by,
        decided_at,
        reason,
        used_at: record.used_at.map(format_timestamp),
    }
}
