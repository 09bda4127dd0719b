use std::time::Duration;

use pillion_core::store::{CallStatus, ProcessRun, ToolCallRecord};
use pillion_core::tool::ErrorCode;

use crate::Result;
use crate::database::{Row, SqlValue, unreadable_column};

/// The columns of a call, in the order of [`to_values`].
pub(super) const COLUMNS: [&str; 20] = [
    "id",
    "owner",
    "run_id",
    "server",
    "tool",
    "user_name",
    "user_is_verified",
    "principal",
    "caller",
    "arguments",
    "repaired_arguments",
    "approved_arguments",
    "status",
    "completed_at",
    "duration_us",
    "result",
    "error",
    "error_code",
    "parent",
    "bytes",
];

pub(super) fn to_values(call: &ToolCallRecord) -> [SqlValue; 20] {
    let duration = call.duration.map(|duration| {
        let microseconds = duration.as_micros();
        i64::try_from(microseconds).unwrap_or(i64::MAX)
    });
    [
        call.id.into(),
        (&call.process.owner).into(),
        (&call.process.run_id).into(),
        (&call.server).into(),
        (&call.tool).into(),
        (&call.user).into(),
        call.user_is_verified.into(),
        (&call.principal).into(),
        (&call.caller).into(),
        (&call.arguments).into(),
        (&call.repaired_arguments).into(),
        (&call.approved_arguments).into(),
        call.status.as_str().into(),
        call.completed_at.into(),
        duration.into(),
        (&call.result).into(),
        (&call.error).into(),
        call.error_code.map(ErrorCode::as_str).into(),
        call.parent.into(),
        i64::try_from(count_bytes(call)).unwrap_or(i64::MAX).into(),
    ]
}

/// Returns the number of bytes of a record that count toward the size limit of the call log.
pub(super) fn count_bytes(call: &ToolCallRecord) -> usize {
    let length = |text: &Option<String>| text.as_ref().map_or(0, String::len);
    let changed_arguments_length =
        length(&call.repaired_arguments) + length(&call.approved_arguments);
    call.arguments.len() + changed_arguments_length + length(&call.result) + length(&call.error)
}

pub(super) fn read_call(row: &Row) -> Result<ToolCallRecord> {
    let duration = row.optional_integer("duration_us")?.map(|number| {
        let microseconds = u64::try_from(number);
        microseconds.map(Duration::from_micros)
    });
    let error_code = row.optional_text("error_code")?.map(|name| {
        let json = serde_json::Value::from(name);
        serde_json::from_value::<ErrorCode>(json)
    });
    Ok(ToolCallRecord {
        id: row.call_id("id")?,
        process: ProcessRun {
            owner: row.text("owner")?,
            run_id: row.text("run_id")?,
        },
        server: row.optional_text("server")?,
        tool: row.text("tool")?,
        user: row.optional_text("user_name")?,
        user_is_verified: row.integer("user_is_verified")? != 0,
        principal: row.optional_text("principal")?,
        caller: row.optional_text("caller")?,
        arguments: row.text("arguments")?,
        repaired_arguments: row.optional_text("repaired_arguments")?,
        approved_arguments: row.optional_text("approved_arguments")?,
        status: read_status(row)?,
        completed_at: row.optional_timestamp("completed_at")?,
        duration: duration
            .transpose()
            .map_err(|_| unreadable_column("duration_us"))?,
        result: row.optional_text("result")?,
        error: row.optional_text("error")?,
        error_code: error_code
            .transpose()
            .map_err(|error| unreadable_column("error_code").with_source(error))?,
        parent: row.optional_call_id("parent")?,
    })
}

pub(super) fn read_status(row: &Row) -> Result<CallStatus> {
    let status = CallStatus::from_name(&row.text("status")?);
    status.ok_or_else(|| unreadable_column("status"))
}
