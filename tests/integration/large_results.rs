//! A result of 8 MiB of an MCP server passes through every interface byte for byte.

use pillion_testkit::Reply;

use crate::prelude::*;

const MIB: usize = 1024 * 1024;

/// Asserts that a response contains a text, without printing both as `assert_eq` would.
fn assert_has(response: &str, expected: &str, interface: &str) {
    let is_there = response.contains(expected);
    assert!(
        is_there,
        "{interface}: different response, {} bytes",
        response.len()
    );
}

/// Returns the lines that a client of `mcp-stdio` receives for these lines.
fn over_stdio(daemon: &Daemon, lines: &[Value]) -> String {
    let input: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let mut command = pillion(&["mcp-stdio", "--socket"]);
    success(&run_with_input(command.arg(&daemon.socket), input))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e10_eight_mebibytes_pass_byte_for_byte_in_every_interface() {
    // The text contains what a re-encoding would change: an escape, a number's notation, the order
    // of members.
    let text = r"0123456789abcd\u00e9".repeat(MIB / 2);
    let result = format!(
        r#"{{"z":1.50,"content":[{{"type":"text","text":"{text}"}}],"a":{{"y":1e2,"b":null}}}}"#
    );
    assert!(result.len() > 8 * MIB && result.len() < 16 * MIB);
    let response = result.clone();
    let server = FakeMcp::start_with(Dialect::StreamableJson, "tools/call", move |_| {
        Reply::raw_result(&response)
    });
    // Results are offloaded to files only if configured.
    let daemon = Daemon::with_config(&server_entry("far", &server.url, ""));
    // REST embeds the result in its own response, with the same values in the same order.
    let rest = daemon.post("/api/v1/tools/execute/far_roll", "{}");
    assert_eq!(rest.status, 200);
    let expected: Value = serde_json::from_str(&result).unwrap();
    let rest = String::from_utf8(rest.body).unwrap();
    assert_has(&rest, &format!("\"data\":{expected}"), "REST");

    let params = json!({"name": "far_roll", "arguments": {}});
    let session = Session::open(&daemon.socket, "2025-11-25", json!({}));
    let call = json!({"jsonrpc": "2.0", "id": "c", "method": "tools/call", "params": params});
    let mcp = String::from_utf8(session.send(&call).body).unwrap();
    let whole = format!(r#"{{"jsonrpc":"2.0","id":"c","result":{result}}}"#);
    assert_has(&mcp, &whole, "/mcp");
    let stateless = ask(&daemon.socket, "tools/call", params)["result"].take();
    assert!(stateless["content"] == expected["content"], "2026-07-28");

    let hello = json!({"jsonrpc": "2.0", "id": "h", "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    }});
    let done = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    let stdio = over_stdio(&daemon, &[hello, done, call]);
    assert_has(&stdio, &format!("{whole}\n"), "mcp-stdio");
}
