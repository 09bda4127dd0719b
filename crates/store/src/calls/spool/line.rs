use std::borrow::Cow;
use std::time::Duration;

use pillion_core::store::{CallId, CallStatus, ProcessRun, StoreError, Timestamp, ToolCallRecord};
use pillion_core::tool::ErrorCode;
use serde::{Deserialize, Serialize};

use crate::Result;

/// Length of a call ID as text, in bytes.
const CALL_ID_LEN: usize = 36;

/// A record as a line of JSON.
#[derive(Serialize, Deserialize)]
struct RecordLine<'a> {
    id: Cow<'a, str>,
    owner: Cow<'a, str>,
    run_id: Cow<'a, str>,
    server: Option<Cow<'a, str>>,
    tool: Cow<'a, str>,
    user: Option<Cow<'a, str>>,
    #[serde(default)]
    user_is_verified: bool,
    principal: Option<Cow<'a, str>>,
    caller: Option<Cow<'a, str>>,
    arguments: Cow<'a, str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    repaired_arguments: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    approved_arguments: Option<Cow<'a, str>>,
    status: Cow<'a, str>,
    completed_at: Option<i64>,
    duration_us: Option<u64>,
    result: Option<Cow<'a, str>>,
    error: Option<Cow<'a, str>>,
    error_code: Option<ErrorCode>,
    parent: Option<Cow<'a, str>>,
}

/// The last member of a line: the checksum of the line without this member.
const CHECKSUM_MEMBER: &[u8] = b",\"crc32\":";
/// Maximum length of the checksum member's value and of the end of the line, in bytes.
const MAX_CHECKSUM_LEN: usize = 11;

/// The result of decoding a line of a spool file.
#[derive(Debug)]
pub(super) enum DecodedLine {
    Record(Box<ToolCallRecord>),
    /// The line is a record of a newer version of Pillion.
    Unknown,
    /// The line is not a complete record.
    Damaged,
}

/// Encodes a record. The line break comes first, so that an incomplete line of a failed write does
/// not damage the next record. The checksum, which comes last, detects damage such as a changed
/// digit, which would otherwise result in another valid record.
pub(super) fn encode(call: &ToolCallRecord) -> Result<Vec<u8>> {
    let duration = call.duration.map(|duration| duration.as_micros());
    let line = RecordLine {
        id: call.id.to_string().into(),
        owner: (&call.process.owner).into(),
        run_id: (&call.process.run_id).into(),
        server: call.server.as_deref().map(Cow::from),
        tool: (&call.tool).into(),
        user: call.user.as_deref().map(Cow::from),
        user_is_verified: call.user_is_verified,
        principal: call.principal.as_deref().map(Cow::from),
        caller: call.caller.as_deref().map(Cow::from),
        arguments: (&call.arguments).into(),
        repaired_arguments: call.repaired_arguments.as_deref().map(Cow::from),
        approved_arguments: call.approved_arguments.as_deref().map(Cow::from),
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
        let message = format!(
            "call '{}' cannot be encoded as JSON for the call log",
            call.id
        );
        StoreError::unavailable(message).with_source(error)
    })?;
    let checksum = crc32fast::hash(&bytes[1..]);
    bytes.pop(); // The closing brace, which is added again after the checksum.
    bytes.extend_from_slice(CHECKSUM_MEMBER);
    bytes.extend_from_slice(checksum.to_string().as_bytes());
    bytes.push(b'}');
    Ok(bytes)
}

/// Returns the index at which the checksum member of a line starts.
fn find_checksum(line: &[u8]) -> Option<usize> {
    let search_start = line
        .len()
        .saturating_sub(CHECKSUM_MEMBER.len() + MAX_CHECKSUM_LEN);
    let mut windows = line[search_start..].windows(CHECKSUM_MEMBER.len());
    let offset = windows.position(|window| window == CHECKSUM_MEMBER)?;
    Some(search_start + offset)
}

/// Returns whether a line has a checksum that matches the line.
fn is_intact(line: &[u8]) -> bool {
    let Some(member_start) = find_checksum(line) else {
        return false;
    };
    let checksum_text = line[member_start + CHECKSUM_MEMBER.len()..]
        .strip_suffix(b"}")
        .and_then(|bytes| str::from_utf8(bytes).ok());
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&line[..member_start]);
    hasher.update(b"}");
    checksum_text.and_then(|text| text.parse().ok()) == Some(hasher.finalize())
}

/// Returns whether a line is complete: whether the line ends with a checksum and a closing brace.
/// The checksum may be wrong.
pub(super) fn is_complete(line: &[u8]) -> bool {
    line.ends_with(b"}") && find_checksum(line).is_some()
}

/// Returns the call IDs that are still readable in a damaged line.
pub(super) fn find_call_ids(line: &[u8]) -> Vec<CallId> {
    const ID_MEMBER_START: &[u8] = b"\"id\":\"";
    let members = line.windows(ID_MEMBER_START.len()).enumerate();
    let matching_windows = members.filter(|(_, window)| *window == ID_MEMBER_START);
    let ids = matching_windows.filter_map(|(member_start, _)| {
        let id = line
            .get(member_start + ID_MEMBER_START.len()..)?
            .get(..CALL_ID_LEN)?;
        str::from_utf8(id).ok()?.parse().ok()
    });
    ids.collect()
}

/// Verifies the checksum of a line, and parses the line.
pub(super) fn decode(line: &[u8]) -> DecodedLine {
    if !is_intact(line) {
        return DecodedLine::Damaged;
    }
    parse(line).map_or(DecodedLine::Unknown, |record| {
        DecodedLine::Record(Box::new(record))
    })
}

/// Parses the record of a line; `None` for an incomplete or unknown record.
fn parse(line: &[u8]) -> Option<ToolCallRecord> {
    let record: RecordLine<'_> = serde_json::from_slice(line).ok()?;
    let to_text = |text: Option<Cow<'_, str>>| text.map(Cow::into_owned);
    Some(ToolCallRecord {
        id: record.id.parse().ok()?,
        process: ProcessRun {
            owner: record.owner.into_owned(),
            run_id: record.run_id.into_owned(),
        },
        server: to_text(record.server),
        tool: record.tool.into_owned(),
        user: to_text(record.user),
        user_is_verified: record.user_is_verified,
        principal: to_text(record.principal),
        caller: to_text(record.caller),
        arguments: record.arguments.into_owned(),
        repaired_arguments: to_text(record.repaired_arguments),
        approved_arguments: to_text(record.approved_arguments),
        status: CallStatus::from_name(&record.status)?,
        completed_at: record.completed_at.map(Timestamp::from_millis),
        duration: record.duration_us.map(Duration::from_micros),
        result: to_text(record.result),
        error: to_text(record.error),
        error_code: record.error_code,
        parent: match record.parent {
            Some(parent) => Some(parent.parse().ok()?),
            None => None,
        },
    })
}
