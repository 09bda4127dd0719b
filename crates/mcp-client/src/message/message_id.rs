use std::fmt;

use serde::de::{Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

/// Maximum size of IDs and keys that are compared, in bytes; this client's IDs are shorter.
const MAX_TOKEN_BYTES: usize = 64;

/// The ID of a request. The client uses numbers from 1, or strings that start with `mcp_`. Servers
/// that return a number as its text (`"3"`) or with a fraction (`3.0`) mean the number.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
#[serde(untagged)]
pub(crate) enum RpcRequestId {
    Number(i64),
    Text(String),
}

impl RpcRequestId {
    /// Parses an ID. A number is parsed without serde, because most IDs are numbers, and serde
    /// would first determine the type.
    pub(super) fn read(raw_id: &RawValue) -> Result<Self, serde_json::Error> {
        match raw_id.get().parse() {
            Ok(number) => Ok(Self::Number(number)),
            Err(_) => serde_json::from_str(raw_id.get()),
        }
    }

    /// Returns whether a response with this ID belongs to the request with the ID `request`. An
    /// empty text matches every request: it means that the response has no ID, as in the response
    /// to a request that the server could not parse.
    pub(crate) fn matches(&self, request: &Self) -> bool {
        self == request || matches!(self, Self::Text(text) if text.is_empty())
    }
}

impl<'de> Deserialize<'de> for RpcRequestId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(IdVisitor)
    }
}

struct IdVisitor;

impl Visitor<'_> for IdVisitor {
    type Value = RpcRequestId;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an ID: a whole number or a string")
    }

    fn visit_i64<E: serde::de::Error>(self, id: i64) -> Result<RpcRequestId, E> {
        Ok(RpcRequestId::Number(id))
    }

    fn visit_u64<E: serde::de::Error>(self, id: u64) -> Result<RpcRequestId, E> {
        let number = i64::try_from(id).map(RpcRequestId::Number);
        number.map_err(|_| E::invalid_value(Unexpected::Unsigned(id), &self))
    }

    fn visit_f64<E: serde::de::Error>(self, id: f64) -> Result<RpcRequestId, E> {
        // A whole number such as `3.0` is formatted without its fraction, so it can be parsed as an
        // integer.
        let number = id.to_string().parse().map(RpcRequestId::Number);
        number.map_err(|_| E::invalid_value(Unexpected::Float(id), &self))
    }

    fn visit_str<E: serde::de::Error>(self, id: &str) -> Result<RpcRequestId, E> {
        let number = id.parse().map(RpcRequestId::Number);
        Ok(number.unwrap_or_else(|_| RpcRequestId::Text(id.to_owned())))
    }
}

/// Finds the ID of a response in a message that cannot be parsed, because the message is too large
/// or not valid JSON. Scans the bytes as they arrive, and stores only keys and plain values of the
/// outermost object.
///
/// The input may be arbitrary bytes. The scan may miss an ID, but never returns an ID that the
/// message does not contain.
#[derive(Default)]
pub(crate) struct ResponseIdScan {
    depth: usize,
    string_state: StringState,
    /// The string, number or word that is being read, if it belongs directly to the outermost
    /// object.
    token: Vec<u8>,
    is_token_too_long: bool,
    key: Option<Vec<u8>>,
    id: Option<RpcRequestId>,
    has_method: bool,
    has_jsonrpc_version: bool,
}

#[derive(Default, PartialEq, Eq)]
enum StringState {
    #[default]
    OutsideString,
    InsideString,
    /// The scan is in a string, after a backslash.
    AfterBackslash,
}

impl ResponseIdScan {
    /// Returns the ID of a response, given as a complete message.
    pub(crate) fn find(message: &[u8]) -> Option<RpcRequestId> {
        let mut scan = Self::default();
        scan.read(message);
        scan.finish()
    }

    /// Returns the ID of a response in a line that contains `jsonrpc`, even after other text.
    pub(crate) fn find_json_rpc(line: &[u8]) -> Option<RpcRequestId> {
        let start = memchr::memchr(b'{', line)?;
        let mut scan = Self::default();
        scan.read(&line[start..]);
        if !scan.has_jsonrpc_version {
            return None;
        }
        scan.finish()
    }

    /// Scans the next bytes of the message.
    pub(crate) fn read(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.read_byte(byte);
        }
    }

    /// Returns the ID, if the message was a response with an ID.
    pub(crate) fn finish(self) -> Option<RpcRequestId> {
        self.id.filter(|_| !self.has_method)
    }

    fn read_byte(&mut self, byte: u8) {
        if self.string_state != StringState::OutsideString {
            self.push(byte);
            self.string_state = match (&self.string_state, byte) {
                (StringState::InsideString, b'\\') => StringState::AfterBackslash,
                (StringState::InsideString, b'"') => StringState::OutsideString,
                _ => StringState::InsideString,
            };
            return;
        }
        match byte {
            b'"' => {
                self.string_state = StringState::InsideString;
                self.push(byte);
            }
            b'{' | b'[' => self.depth = self.depth.saturating_add(1),
            b'}' | b']' => {
                self.end_member();
                self.depth = self.depth.saturating_sub(1);
            }
            b':' if self.depth == 1 && self.key.is_none() => {
                let key = self.take_token();
                self.has_method |= key == br#""method""#;
                self.has_jsonrpc_version |= key == br#""jsonrpc""#;
                self.key = Some(key);
            }
            b',' => self.end_member(),
            byte if byte.is_ascii_whitespace() => {}
            _ => self.push(byte),
        }
    }

    /// Ends the current member of the outermost object, and reads the member's value if it is the
    /// ID.
    fn end_member(&mut self) {
        if self.depth != 1 {
            return;
        }
        let value = self.take_token();
        if self.key.take().is_some_and(|key| key == br#""id""#) {
            self.id = serde_json::from_slice(&value).ok();
        }
    }

    /// Adds a byte to the current token, if the scan is in the outermost object.
    fn push(&mut self, byte: u8) {
        if self.depth != 1 {
            return;
        }
        if self.token.len() < MAX_TOKEN_BYTES {
            self.token.push(byte);
        } else {
            self.is_token_too_long = true;
        }
    }

    /// Returns the token before a colon or comma; empty if the token is too long for an ID of this
    /// client.
    fn take_token(&mut self) -> Vec<u8> {
        let token = std::mem::take(&mut self.token);
        if std::mem::take(&mut self.is_token_too_long) {
            return Vec::new();
        }
        token
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_id_of_a_response_is_found_at_any_position() {
        let long = "x".repeat(1000);
        for text in [
            r#"{"jsonrpc":"2.0","id":7,"result":{"id":8}}"#.to_owned(),
            r#"{"result":{"a":[{"id":1},"\"id\":2,}"]},"jsonrpc":"2.0","id":7}"#.to_owned(),
            r#"{ "id" : 7 , "result" : NaN }"#.to_owned(),
            format!(r#"{{"{long}":"{long}","result":"{long}","id":7}}"#),
            r#"{"id":7,"result":"cut o"#.to_owned(),
        ] {
            let id = ResponseIdScan::find(text.as_bytes());
            assert_eq!(id, Some(RpcRequestId::Number(7)), "{text}");
        }
        let text = br#"{"result":1,"id":"mcp_7"}"#;
        let id = RpcRequestId::Text("mcp_7".into());
        assert_eq!(ResponseIdScan::find(text), Some(id));
    }

    #[test]
    fn other_messages_have_no_response_id() {
        for text in [
            r#"{"jsonrpc":"2.0","id":7,"method":"ping"}"#,
            r#"{"method":"ping","id":7}"#,
            r#"{"result":{"id":7}}"#,
            r#"[{"id":7}]"#,
            r#"{"id":{"id":7}}"#,
            r#"{"id":7.5,"result":1}"#,
            r#""id":7"#,
            "}}}}{{:,:",
            "",
        ] {
            assert_eq!(ResponseIdScan::find(text.as_bytes()), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn chunk_boundaries_do_not_change_the_id(bytes: Vec<u8>, cut: prop::sample::Index) {
            let mut pieces = ResponseIdScan::default();
            let (first, second) = bytes.split_at(cut.index(bytes.len() + 1));
            pieces.read(first);
            pieces.read(second);
            prop_assert_eq!(pieces.finish(), ResponseIdScan::find(&bytes));
        }
    }
}
