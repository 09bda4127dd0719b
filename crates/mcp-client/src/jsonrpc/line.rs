use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use super::{Incoming, MessageId, RpcRequestId};
use crate::McpErrorKind;

/// Number of bytes that failed attempts to parse values may read, beyond twice the length of the
/// line. Then the rest of the line is skipped.
const MIN_FAILED_BYTES: usize = 64 * 1024;

/// The JSON-RPC messages in a line of a program's output.
///
/// Programs also print logs, progress bars and escape sequences to their standard output. Most
/// lines are one JSON-RPC message each. In all other lines, only values with `"jsonrpc": "2.0"`
/// count as messages.
#[derive(Debug, Default)]
pub(crate) struct MessageLine {
    pub(crate) messages: Vec<Incoming>,
    /// Whether the line contains other text than messages, so that a request in the line may be the
    /// program's log of a request that this client sent.
    pub(crate) has_noise: bool,
    /// The id of a response that cannot be parsed, and why.
    pub(crate) unreadable: Option<(RpcRequestId, McpErrorKind)>,
}

impl MessageLine {
    /// Parses a line, which may be a batch. Never fails: everything that is not JSON-RPC is noise.
    pub(crate) fn read(line: &[u8]) -> Self {
        let line = trim(line);
        let error = match std::str::from_utf8(line) {
            Ok("") => return Self::default(),
            Ok(text) => match messages_of(text) {
                Ok(messages) => {
                    return Self {
                        has_noise: messages.is_empty(),
                        messages,
                        unreadable: None,
                    };
                }
                Err(error) => McpErrorKind::InvalidMessage(error),
            },
            Err(_) => McpErrorKind::InvalidUtf8,
        };
        let messages = find_messages(line);
        let unreadable = if messages.is_empty() {
            MessageId::find_json_rpc(line).map(|id| (id, error))
        } else {
            None
        };
        Self {
            messages,
            has_noise: true,
            unreadable,
        }
    }
}

/// Returns the messages of a line that is one JSON value. Returns none if the value is a log entry.
fn messages_of(text: &str) -> Result<Vec<Incoming>, serde_json::Error> {
    if text.starts_with('[') {
        // `Incoming::parse` skips the values of a batch that are not messages.
        return Incoming::parse(text);
    }
    let (message, has_version) = Incoming::parse_with_version(text)?;
    if has_version || serde_json::from_str::<OnlyJsonRpc>(text).is_ok() {
        return Ok(vec![message]);
    }
    Ok(Vec::new())
}

/// A message without members other than those of JSON-RPC. Some servers omit `jsonrpc`, but a log
/// entry with an id has further members.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "only the names of the members matter")]
struct OnlyJsonRpc {
    jsonrpc: Option<IgnoredAny>,
    id: Option<IgnoredAny>,
    method: Option<IgnoredAny>,
    params: Option<IgnoredAny>,
    result: Option<IgnoredAny>,
    error: Option<IgnoredAny>,
}

/// Returns the messages that a line contains between other text.
fn find_messages(line: &[u8]) -> Vec<Incoming> {
    let mut messages = Vec::new();
    let mut rest = line;
    let mut budget = 2 * line.len() + MIN_FAILED_BYTES;
    while let Some(start) = memchr::memchr2(b'{', b'[', rest) {
        rest = &rest[start..];
        let mut values = serde_json::Deserializer::from_slice(rest).into_iter::<&RawValue>();
        let used = match values.next() {
            Some(Ok(value)) => {
                messages.extend(marked_messages(value.get()));
                values.byte_offset()
            }
            Some(Err(error)) => {
                // The position of the error is the number of bytes that were read.
                let Some(left) = budget.checked_sub(error.column().max(1)) else {
                    break;
                };
                budget = left;
                1
            }
            None => break,
        };
        rest = &rest[used..];
    }
    messages
}

/// Returns the messages of a JSON value that have `"jsonrpc": "2.0"`.
fn marked_messages(text: &str) -> Vec<Incoming> {
    let of_one = |text: &str| match Incoming::parse_with_version(text) {
        Ok((message, true)) => Some(message),
        _ => None,
    };
    if !text.starts_with('[') {
        return of_one(text).into_iter().collect();
    }
    // A list that is not a batch costs no more memory than its text.
    let batch: Vec<&RawValue> = serde_json::from_str(text).unwrap_or_default();
    batch.iter().filter_map(|one| of_one(one.get())).collect()
}

/// Removes white space and byte order marks around a line.
fn trim(line: &[u8]) -> &[u8] {
    const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
    let mut line = line.trim_ascii();
    while let Some(rest) = line.strip_prefix(BYTE_ORDER_MARK) {
        line = rest.trim_ascii_start();
    }
    line
}

#[cfg(test)]
mod tests;
