use std::time::Duration;

use pillion_core::store::{CallStatus, ToolCallRecord, ToolStatistics};
use pillion_wire::{ToolCallEntry, ToolUsage};

use super::ServerIds;
use crate::routes::page::stored_json;
use pillion_gateway::timestamp::format_timestamp;

/// Converts a recorded call to its representation in the REST API.
pub(super) fn from_record(call: ToolCallRecord, servers: &ServerIds) -> ToolCallEntry {
    ToolCallEntry {
        id: call.id.to_string(),
        started_at: format_timestamp(call.arrived_at()),
        server_id: call.server.as_deref().map(|name| servers.find_id(name)),
        server_name: call.server,
        tool_name: call.tool,
        user: call.user,
        user_is_verified: call.user_is_verified,
        principal: call.principal,
        caller: call.caller,
        arguments: stored_json(&call.arguments),
        repaired_arguments: call.repaired_arguments.as_deref().map(stored_json),
        approved_arguments: call.approved_arguments.as_deref().map(stored_json),
        status: call.status.as_str().to_owned(),
        // A successful call without a duration is a cached result.
        cached: call.status == CallStatus::Success && call.duration.is_none(),
        completed_at: call.completed_at.map(format_timestamp),
        duration_ms: call.duration.map(to_millis),
        result: call
            .result
            .as_deref()
            .filter(|json| *json != "null")
            .map(stored_json),
        error: call.error,
        error_code: call.error_code.map(|code| code.as_str().to_owned()),
        parent_id: call.parent.map(|parent| parent.to_string()),
    }
}

/// Converts a tool's statistics to their representation in the REST API.
pub(super) fn from_statistics(tool: ToolStatistics, servers: &ServerIds) -> ToolUsage {
    ToolUsage {
        success_rate: tool.success_rate(),
        server_id: tool.server.as_deref().map(|name| servers.find_id(name)),
        server_name: tool.server,
        tool_name: tool.tool,
        calls: tool.calls,
        succeeded: tool.succeeded,
        failed: tool.failed,
        p50_ms: tool.p50.map(to_millis),
        p95_ms: tool.p95.map(to_millis),
        p99_ms: tool.p99.map(to_millis),
    }
}

/// Returns the size of a call's stored JSON, in bytes.
pub(super) fn count_json_bytes(call: &ToolCallRecord) -> usize {
    let length = |text: &Option<String>| text.as_ref().map_or(0, String::len);
    let changed_bytes = length(&call.repaired_arguments) + length(&call.approved_arguments);
    call.arguments.len() + changed_bytes + length(&call.result)
}

/// Returns the duration in milliseconds, rounded to the microsecond.
fn to_millis(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1e6).round() / 1e3
}
