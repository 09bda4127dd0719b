use super::RpcRequestId;

/// Maximum size of ids and keys that are compared, in bytes; this client's ids are shorter.
const MAX_TOKEN_LEN: usize = 64;

/// Finds the id of a response in a message that cannot be parsed, because the message is too large
/// or not valid JSON. Scans the bytes as they arrive, and stores only keys and plain values of the
/// outermost object.
///
/// The input may be anything. The scan may miss an id, but never returns one that is not there.
#[derive(Default)]
pub(crate) struct MessageId {
    depth: usize,
    string: StringState,
    /// The string, number or word of the outermost object that is being read.
    token: Vec<u8>,
    token_is_too_long: bool,
    key: Option<Vec<u8>>,
    id: Option<RpcRequestId>,
    has_method: bool,
    has_version: bool,
}

#[derive(Default, PartialEq, Eq)]
enum StringState {
    #[default]
    No,
    Yes,
    /// The scan is in a string, after a backslash.
    Escaped,
}

impl MessageId {
    /// Returns the id of a response, given as a complete message.
    pub(crate) fn find(message: &[u8]) -> Option<RpcRequestId> {
        let mut scan = Self::default();
        scan.read(message);
        scan.finish()
    }

    /// Returns the id of a response in a line that contains `jsonrpc`, even after other text.
    pub(crate) fn find_json_rpc(line: &[u8]) -> Option<RpcRequestId> {
        let start = memchr::memchr(b'{', line)?;
        let mut scan = Self::default();
        scan.read(&line[start..]);
        if !scan.has_version {
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

    /// Returns the id, if the message was a response with an id.
    pub(crate) fn finish(self) -> Option<RpcRequestId> {
        self.id.filter(|_| !self.has_method)
    }

    fn read_byte(&mut self, byte: u8) {
        if self.string != StringState::No {
            self.keep(byte);
            self.string = match (&self.string, byte) {
                (StringState::Yes, b'\\') => StringState::Escaped,
                (StringState::Yes, b'"') => StringState::No,
                _ => StringState::Yes,
            };
            return;
        }
        match byte {
            b'"' => {
                self.string = StringState::Yes;
                self.keep(byte);
            }
            b'{' | b'[' => self.depth = self.depth.saturating_add(1),
            b'}' | b']' => {
                self.end_member();
                self.depth = self.depth.saturating_sub(1);
            }
            b':' if self.depth == 1 && self.key.is_none() => {
                let key = self.take_token();
                self.has_method |= key == br#""method""#;
                self.has_version |= key == br#""jsonrpc""#;
                self.key = Some(key);
            }
            b',' => self.end_member(),
            byte if byte.is_ascii_whitespace() => {}
            _ => self.keep(byte),
        }
    }

    fn end_member(&mut self) {
        if self.depth != 1 {
            return;
        }
        let value = self.take_token();
        if self.key.take().is_some_and(|key| key == br#""id""#) {
            self.id = serde_json::from_slice(&value).ok();
        }
    }

    fn keep(&mut self, byte: u8) {
        if self.depth != 1 {
            return;
        }
        if self.token.len() < MAX_TOKEN_LEN {
            self.token.push(byte);
        } else {
            self.token_is_too_long = true;
        }
    }

    /// Returns the token before a colon or comma; empty if the token is too long for an id of this
    /// client.
    fn take_token(&mut self) -> Vec<u8> {
        let token = std::mem::take(&mut self.token);
        if std::mem::take(&mut self.token_is_too_long) {
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
            assert_eq!(
                MessageId::find(text.as_bytes()),
                Some(RpcRequestId::Number(7)),
                "{text}"
            );
        }
        let text = br#"{"result":1,"id":"mcp_7"}"#;
        assert_eq!(
            MessageId::find(text),
            Some(RpcRequestId::Text("mcp_7".into()))
        );
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
            assert_eq!(MessageId::find(text.as_bytes()), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn chunk_boundaries_do_not_change_the_id(bytes: Vec<u8>, cut: prop::sample::Index) {
            let mut pieces = MessageId::default();
            let (first, second) = bytes.split_at(cut.index(bytes.len() + 1));
            pieces.read(first);
            pieces.read(second);
            prop_assert_eq!(pieces.finish(), MessageId::find(&bytes));
        }
    }
}
