use proptest::prelude::*;

use super::*;

const RESPONSE: &str = r#"{"result":{"a":[1.50]},"jsonrpc":"2.0","id":7}"#;

/// Returns the IDs of the responses in a line.
fn ids(line: &[u8]) -> Vec<i64> {
    let messages = MessageLine::read(line).messages;
    let ids = messages.iter().filter_map(|message| match message {
        IncomingMessage::Response {
            id: RpcRequestId::Number(id),
            ..
        } => Some(*id),
        _ => None,
    });
    ids.collect()
}

#[test]
fn a_message_is_found_between_any_noise() {
    let second = RESPONSE.replace('7', "8");
    for line in [
        RESPONSE.to_owned(),
        format!("\u{feff}{RESPONSE}\r"),
        format!("\u{feff}\u{feff} {RESPONSE}"),
        format!("\u{1b}[2K\u{1b}[1G{RESPONSE}"),
        format!("\u{1b}]0;title\u{7}{RESPONSE}\u{1b}[0m"),
        format!("Loading [##  ]\rLoading [####]\r{RESPONSE}"),
        format!("[MCP] {{tools}} [1, 2] {{\"level\":30}} {RESPONSE} done"),
        format!("INFO sent: [{RESPONSE}]"),
        format!("\u{1e}{RESPONSE}"),
        format!("{{\"open\": {RESPONSE}"),
        format!("{}{RESPONSE}", "[#]\r".repeat(10_000)),
    ] {
        assert_eq!(ids(line.as_bytes()), [7], "{line}");
    }
    let mut latin = b"caf\xe9 ".to_vec();
    latin.extend_from_slice(RESPONSE.as_bytes());
    assert_eq!(ids(&latin), [7]);
    assert_eq!(ids(format!("{RESPONSE}{second}").as_bytes()), [7, 8]);
    assert_eq!(ids(format!("{RESPONSE} - {second}").as_bytes()), [7, 8]);
    assert!(!MessageLine::read(RESPONSE.as_bytes()).has_other_text);
    assert!(MessageLine::read(format!("x{RESPONSE}").as_bytes()).has_other_text);
}

#[test]
fn a_log_entry_is_no_message_whatever_its_members() {
    for line in [
        r#"{"level":30,"id":7,"msg":"request"}"#,
        r#"{"level":50,"id":7,"error":"ECONNRESET"}"#,
        r#"{"level":50,"id":7,"error":{"code":-32000,"message":"x"},"time":1}"#,
        r#"{"id":7,"result":"done","elapsed_ms":3}"#,
        r#"{"method":"tools/call","id":7,"pid":1}"#,
        r#"{"method":"notifications/x","level":"info"}"#,
        r#"{"id":7}"#,
        r#"{"id":7,"msg":NaN}"#,
        r#"got {"id":7,"result":{}}"#,
        "[7]",
        "null",
        "\"text\"",
        "Hello!",
        "{",
        "\u{1b}[32minfo\u{1b}[0m started",
    ] {
        let read = MessageLine::read(line.as_bytes());
        assert!(read.messages.is_empty(), "{line}");
        assert!(read.unreadable_response.is_none(), "{line}");
        assert!(read.has_other_text, "{line}");
    }
    for line in ["", "  \r", "\u{feff}"] {
        let read = MessageLine::read(line.as_bytes());
        assert!(read.messages.is_empty() && !read.has_other_text, "{line:?}");
    }
}

#[test]
fn a_message_without_a_version_is_a_message() {
    assert_eq!(ids(br#"{"id":7,"result":{}}"#), [7]);
    assert_eq!(ids(br#"{"id":7,"error":{"code":1,"message":"no"}}"#), [7]);
    assert_eq!(ids(br#"[{"id":7,"result":{}},3]"#), [7]);
}

#[test]
fn an_unreadable_response_is_known_by_its_id() {
    for line in [
        &br#"{"jsonrpc":"2.0","result":NaN,"id":7}"#[..],
        br#"{"jsonrpc":"2.0","id":7}"#,
        b"{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":\"\xff\"}",
    ] {
        let (id, _) = MessageLine::read(line).unreadable_response.unwrap();
        assert_eq!(id, RpcRequestId::Number(7));
    }
}

proptest! {
    #[test]
    fn any_line_is_read_and_any_prefix_leaves_the_message(prefix: Vec<u8>) {
        MessageLine::read(&prefix);
        // With a quote in the prefix, the message could be a part of a string.
        let mut line: Vec<u8> = prefix.into_iter().filter(|byte| *byte != b'"').collect();
        line.extend_from_slice(RESPONSE.as_bytes());
        prop_assert_eq!(ids(&line), vec![7]);
    }
}
