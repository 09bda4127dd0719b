//! Results of MCP servers with many small JSON values, which need many times their size once they are
//! parsed.

use crate::expensive_schemas::{MAX_GROWTH, MAX_WAIT, longest_wait, resident};
use crate::hostile_server::{self, HostileReply};
use crate::prelude::*;
use crate::routes::mcp::last;

/// The tested methods, with the beginning of their results.
const METHODS: [(&str, &str, &str); 4] = [
    (
        "tools/call",
        r#"{"name":"echo","arguments":{}}"#,
        r#""content":[]"#,
    ),
    (
        "resources/read",
        r#"{"uri":"a:1"}"#,
        r#""contents":[{"uri":"a:1","text":"a"}]"#,
    ),
    ("prompts/get", r#"{"name":"p"}"#, r#""messages":[]"#),
    (
        "completion/complete",
        r#"{"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"a","value":"b"}}"#,
        r#""completion":{"values":[]}"#,
    ),
];

/// Returns the response to a request: the usual one, or one with `values` values of a kind in
/// `_meta`.
fn reply(request: &Value, kind: &str, values: usize, is_stream: bool) -> HostileReply {
    let method = request["method"].as_str().unwrap_or_default();
    let list = match method {
        "resources/list" => Some(json!({"resources": [{"uri": "a:1", "name": "a"}]})),
        "prompts/list" => Some(json!({"prompts": [{"name": "p"}]})),
        _ => None,
    };
    if let Some(list) = list {
        return HostileReply::rpc(request, &format!(r#""result":{list}"#));
    }
    let Some((_, _, result)) = METHODS.iter().find(|(name, ..)| *name == method) else {
        return HostileReply::well(request);
    };
    let many = vec![kind; values].join(",");
    let members = format!(r#""result":{{{result},"_meta":{{"x":[{many}]}}}}"#);
    let mut reply = HostileReply::rpc(request, &members);
    if is_stream {
        reply.head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream".to_owned();
        reply.body = format!("data: {}\n\n", reply.body);
    }
    reply
}

/// Sends a request to the MCP server of a daemon whose only server sends many values.
fn ask(daemon: &Daemon, method: &str, params: &str) -> Value {
    let session = Session::open(&daemon.socket, "2025-06-18", json!({}));
    let body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{params}}}"#);
    let (socket, headers) = (&daemon.socket, &session.headers);
    let timeout = Duration::from_secs(120);
    last(&socket.send_within("POST", "/mcp", headers, body.as_bytes(), timeout))
}

fn daemon(kind: &'static str, values: usize, is_stream: bool) -> Daemon {
    let url = hostile_server::start(move |request| reply(request, kind, values, is_stream));
    let server = server_entry("evil", &url, "tool_prefix = \"\"");
    Daemon::with_config(&server)
}

#[test]
fn a_result_with_too_many_values_is_an_error_before_it_is_parsed() {
    for (nth, kind) in ["0", "[]", "[0]", "{}", r#"{"":0}"#]
        .into_iter()
        .enumerate()
    {
        let number = if kind == "0" { 1_200_000 } else { 600_000 };
        let daemon = daemon(kind, number, nth % 2 == 1);
        let before = resident(&daemon.socket);
        let waited = longest_wait(&daemon.socket, &["/healthz"], || {
            for (method, params, _) in METHODS {
                let response = ask(&daemon, method, params);
                assert_contains!(response.to_string(), "1000000 JSON values");
            }
        });
        assert!(waited < MAX_WAIT, "{kind}: {waited:?}");
        let growth = resident(&daemon.socket).saturating_sub(before);
        assert!(growth < MAX_GROWTH, "{kind}: {growth} bytes");
        let called = daemon.execute("echo", &json!({}));
        assert_json!(called["result"]["error_code"], "internal_error");
    }
}

#[test]
fn a_long_result_is_parsed_without_delaying_other_requests() {
    // Just within the limit.
    let daemon = daemon("0", 999_000, false);
    let waited = longest_wait(&daemon.socket, &["/healthz"], || {
        for (method, params, _) in METHODS {
            let response = ask(&daemon, method, params);
            let values = response["result"]["_meta"]["x"].as_array();
            assert_eq!(values.map(Vec::len), Some(999_000), "{method}");
        }
    });
    assert!(waited < MAX_WAIT, "{waited:?}");
}
