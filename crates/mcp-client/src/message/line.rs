use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use super::{IncomingMessage, ResponseIdScan, RpcRequestId};
use crate::McpErrorKind;

/// Minimum parse budget of a line, in bytes; the budget of a line is twice the line's length plus
/// this number. The budget is the maximum number of bytes that failed attempts to parse values in
/// the line may read. When it is used up, the rest of the line is skipped.
const MIN_PARSE_BUDGET_BYTES: usize = 64 * 1024;

/// The JSON-RPC messages in a line of a program's output.
///
/// Programs also print logs, progress bars and escape sequences to their standard output. Most
/// lines are one JSON-RPC message each. In all other lines, only values with `"jsonrpc": "2.0"`
/// count as messages.
#[derive(Debug, Default)]
pub(crate) struct MessageLine {
    pub(crate) messages: Vec<IncomingMessage>,
    /// Whether the line contains text other than messages. A request in such a line may be a log
    /// entry of the program about a request that this client sent.
    pub(crate) has_other_text: bool,
    /// The ID of a response in the line that cannot be parsed, and the reason.
    pub(crate) unreadable_response: Option<(RpcRequestId, McpErrorKind)>,
}

impl MessageLine {
    /// Parses a line, which may be a batch. Never fails, because everything that is not JSON-RPC is
    /// ignored.
    pub(crate) fn read(line: &[u8]) -> Self {
        let trimmed_line = trim_line(line);
        let error = match std::str::from_utf8(trimmed_line) {
            Ok("") => return Self::default(),
            Ok(text) => match parse_single_value(text) {
                Ok(messages) => {
                    return Self {
                        has_other_text: messages.is_empty(),
                        messages,
                        unreadable_response: None,
                    };
                }
                Err(error) => McpErrorKind::InvalidMessage(error),
            },
            Err(_) => McpErrorKind::InvalidUtf8,
        };
        let messages = find_messages(trimmed_line);
        let unreadable_response = if messages.is_empty() {
            ResponseIdScan::find_json_rpc(trimmed_line).map(|id| (id, error))
        } else {
            None
        };
        Self {
            messages,
            has_other_text: true,
            unreadable_response,
        }
    }
}

/// Returns the messages of a line that is one JSON value; no messages if the value is a log entry.
fn parse_single_value(text: &str) -> Result<Vec<IncomingMessage>, serde_json::Error> {
    if text.starts_with('[') {
        // A batch may contain other values than messages, because `IncomingMessage::parse` skips
        // them.
        return IncomingMessage::parse(text);
    }
    let (message, has_jsonrpc_version) = IncomingMessage::parse_with_version(text)?;
    if has_jsonrpc_version || serde_json::from_str::<JsonRpcMembersOnly>(text).is_ok() {
        return Ok(vec![message]);
    }
    Ok(Vec::new())
}

/// A message whose members are all defined by JSON-RPC. Some servers omit `jsonrpc`; a log entry
/// with an ID has further members and is not a message.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "only the names of the members matter")]
struct JsonRpcMembersOnly {
    jsonrpc: Option<IgnoredAny>,
    id: Option<IgnoredAny>,
    method: Option<IgnoredAny>,
    params: Option<IgnoredAny>,
    result: Option<IgnoredAny>,
    error: Option<IgnoredAny>,
}

/// Returns the messages that a line contains between other text.
fn find_messages(line: &[u8]) -> Vec<IncomingMessage> {
    let mut messages = Vec::new();
    let mut rest = line;
    let mut budget = 2 * line.len() + MIN_PARSE_BUDGET_BYTES;
    while let Some(start) = memchr::memchr2(b'{', b'[', rest) {
        rest = &rest[start..];
        let mut values = serde_json::Deserializer::from_slice(rest).into_iter::<&RawValue>();
        let read_bytes = match values.next() {
            Some(Ok(value)) => {
                messages.extend(find_marked_messages(value.get()));
                values.byte_offset()
            }
            Some(Err(error)) => {
                // The number of bytes that the failed attempt has read, which is the position of
                // the error, is subtracted from the parse budget of the line.
                let Some(remaining_budget) = budget.checked_sub(error.column().max(1)) else {
                    break;
                };
                budget = remaining_budget;
                1
            }
            None => break,
        };
        rest = &rest[read_bytes..];
    }
    messages
}

/// Returns the messages of a JSON value that have `"jsonrpc": "2.0"`.
fn find_marked_messages(text: &str) -> Vec<IncomingMessage> {
    let parse_marked = |text: &str| match IncomingMessage::parse_with_version(text) {
        Ok((message, true)) => Some(message),
        _ => None,
    };
    if !text.starts_with('[') {
        return parse_marked(text).into_iter().collect();
    }
    // The values stay text until they are parsed one by one, so that a list that is not a batch
    // costs no more memory than its text.
    let batch: Vec<&RawValue> = serde_json::from_str(text).unwrap_or_default();
    let messages = batch.iter().filter_map(|value| parse_marked(value.get()));
    messages.collect()
}

/// Removes white space and byte order marks around a line.
fn trim_line(line: &[u8]) -> &[u8] {
    const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
    let mut trimmed_line = line.trim_ascii();
    while let Some(rest) = trimmed_line.strip_prefix(BYTE_ORDER_MARK) {
        trimmed_line = rest.trim_ascii_start();
    }
    trimmed_line
}

#[cfg(test)]
mod tests;
