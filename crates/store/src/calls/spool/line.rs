use std::borrow::Cow;
use std::time::Duration;

use pillion_core::store::{CallStatus, ProcessLife, StoreError, Timestamp, ToolCallRecord};
use pillion_core::tool::ErrorCode;
use serde::{Deserialize, Serialize};

/// A record as a line of JSON.
#[derive(Serialize, Deserialize)]
struct RecordLine<'a> {
    id: Cow<'a, str>,
    owner: Cow<'a, str>,
    life: Cow<'a, str>,
    server: Option<Cow<'a, str>>,
    tool: Cow<'a, str>,
    user: Option<Cow<'a, str>>,
    principal: Option<Cow<'a, str>>,
    caller: Option<Cow<'a, str>>,
    arguments: Cow<'a, str>,
    status: Cow<'a, str>,
    completed_at: Option<i64>,
    duration_us: Option<u64>,
    result: Option<Cow<'a, str>>,
    error: Option<Cow<'a, str>>,
    error_code: Option<ErrorCode>,
    parent: Option<Cow<'a, str>>,
}

/// Encodes a record. The line break comes first, so that half a line of a failed write does not
/// damage the next record.
pub(super) fn encode(call: &ToolCallRecord) -> Result<Vec<u8>, StoreError> {
    let duration = call.duration.map(|duration| duration.as_micros());
    let line = RecordLine {
        id: call.id.to_string().into(),
        owner: (&call.process.owner).into(),
        life: (&call.process.life).into(),
        server: call.server.as_deref().map(Cow::from),
        tool: (&call.tool).into(),
        user: call.user.as_deref().map(Cow::from),
        principal: call.principal.as_deref().map(Cow::from),
        caller: call.caller.as_deref().map(Cow::from),
        arguments: (&call.arguments).into(),
        status: call.status.as_str().into(),
        completed_at: call.completed_at.map(Timestamp::as_millis),
        duration_us: duration.map(|duration| u64::try_from(duration).unwrap_or(u64::MAX)),
        result: call.result.as_deref().map(Cow::from),
        error: call.error.as_deref().map(Cow::from),
        error_code: call.error_code,
        parent: call.parent.map(|parent| parent.to_string().into()),
    };
    let mut bytes = vec![b'\n'];
    serde_json::to_writer(&mut bytes, &line).map_err(|error| {
        StoreError::unavailable("a call cannot be encoded as JSON for the call log")
            .with_source(error)
    })?;
    Ok(bytes)
}

/// Returns whether a line without a known record is complete JSON, as a newer program may have
/// written it.
pub(super) fn is_whole(line: &[u8]) -> bool {
    serde_json::from_slice::<serde_json::Map<String, serde_json::Value>>(line).is_ok()
}

/// Parses the record of a line; `None` for an incomplete or unknown record.
pub(super) fn decode(line: &[u8]) -> Option<ToolCallRecord> {
    let line: RecordLine<'_> = serde_json::from_slice(line).ok()?;
    let text = |text: Option<Cow<'_, str>>| text.map(Cow::into_owned);
    Some(ToolCallRecord {
        id: line.id.parse().ok()?,
        process: ProcessLife {
            owner: line.owner.into_owned(),
            life: line.life.into_owned(),
        },
        server: text(line.server),
        tool: line.tool.into_owned(),
        user: text(line.user),
        principal: text(line.principal),
        caller: text(line.caller),
        arguments: line.arguments.into_owned(),
        status: CallStatus::from_name(&line.status)?,
        completed_at: line.completed_at.map(Timestamp::from_millis),
        duration: line.duration_us.map(Duration::from_micros),
        result: text(line.result),
        error: text(line.error),
        error_code: line.error_code,
        parent: match line.parent {
            Some(parent) => Some(parent.parse().ok()?),
            None => None,
        },
    })
}
