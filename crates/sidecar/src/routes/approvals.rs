//! Routes under `/api/v1/approvals`: calls that need approval.

pub(super) mod decide;
pub(super) mod list;
pub(super) mod show;

use pillion_core::store::{ApprovalRecord, Timestamp};
use pillion_wire::ApprovalEntry;
use serde_json::Value;

use pillion_gateway::timestamp::format_timestamp;

/// Converts a stored approval to its form in the API.
fn entry(record: ApprovalRecord) -> ApprovalEntry {
    let status = record.status(Timestamp::now()).to_owned();
    let parsed = |text: String| serde_json::from_str(&text).unwrap_or(Value::String(text));
    let (decided_by, decided_at, reason, approved_arguments) = match record.decision {
        None => (None, None, None, None),
        Some(decision) => (
            Some(decision.by),
            Some(format_timestamp(decision.at)),
            decision.reason,
            decision.arguments.map(parsed),
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
        arguments: Some(parsed(record.arguments)),
        forwarded: record.forwarded.map(parsed),
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
