use pillion_testkit::Reply;

use super::*;

const ODD: &str = r#"{"content":[{"type":"text","text":"","depth":1.50,"x":{"b":1,"a":18446744073709551617}}],"structuredContent":{"n":[1.0]},"isError":false,"_meta":{"z":1e2},"later":null}"#;

fn config(url: &str) -> String {
    server_entry("far", url, "tool_prefix = \"\"")
}

fn call(name: &str, arguments: Value) -> Value {
    json!({"name": name, "arguments": arguments})
}

#[test]
fn i3_a_result_has_text_and_structured_content() {
    let sidecar = Sidecar::start();
    let session = Session::open(&sidecar.socket, "2025-11-25", json!({}));
    let params = call("calculator", json!({"expression": "10/4"}));
    let result = session.ask("tools/call", params.clone())["result"].clone();
    assert_eq!(result["content"], json!([{"type": "text", "text": "2.5"}]));
    assert_eq!(result["structuredContent"]["ok"], true);
    assert_eq!(result["structuredContent"]["data"]["result"], 2.5);
    assert_eq!(result["isError"], false);
    assert!(result.get("resultType").is_none());

    let result = ask(&sidecar.socket, "tools/call", params)["result"].clone();
    assert_eq!(result["resultType"], "complete");
    assert_eq!(result["structuredContent"]["data"]["result"], 2.5);

    let failed = call("calculator", json!({"expression": "1/0"}));
    let result = session.ask("tools/call", failed)["result"].clone();
    assert_eq!(result["isError"], true);
    let text = "Calculation error: division by zero";
    assert_eq!(result["content"][0]["text"], text);
    let expected = json!({"ok": false, "error": {"code": "invalid_input", "message": text}});
    assert_eq!(result["structuredContent"], expected);
}

#[test]
fn b5_an_unknown_tool_is_a_protocol_error() {
    let sidecar = Sidecar::start();
    let session = Session::open(&sidecar.socket, "2025-06-18", json!({}));
    let params = call("nope", json!({}));
    for response in [
        session.ask("tools/call", params.clone()),
        ask(&sidecar.socket, "tools/call", params),
    ] {
        assert_json!(response["error"]["code"], -32602);
        assert_eq!(response["error"]["message"], "Unknown tool: nope");
    }
    let wrong = session.ask("tools/call", call("calculator", json!([1])));
    assert_json!(wrong["error"]["code"], -32602);
    let wrong = session.ask("tools/call", json!({"arguments": {}}));
    assert_json!(wrong["error"]["code"], -32602);
}

#[test]
fn the_list_is_in_a_stable_order_and_has_no_second_page() {
    let sidecar = Sidecar::start();
    let list = || ask(&sidecar.socket, "tools/list", json!({}))["result"].clone();
    let first = list();
    assert_eq!(first, list());
    assert_json!(first["ttlMs"], 0);
    assert_json!(first["cacheScope"], "private");
    assert_eq!(first["resultType"], "complete");
    let tools = first["tools"].items();
    assert!(
        tools
            .iter()
            .all(|tool| tool["inputSchema"]["type"] == "object")
    );
    assert!(tools.iter().any(|tool| tool["name"] == "calculator"));
    let next = ask(&sidecar.socket, "tools/list", json!({"cursor": "x"}));
    assert_json!(next["error"]["code"], -32602);
}

#[tokio::test(flavor = "multi_thread")]
async fn e10_lists_and_results_of_a_server_pass_byte_for_byte() {
    let listed = r#"{"tools":[{"name":"odd","title":"T","icons":[],"x-own":{"n":1.50},"inputSchema":{"type":"object","x":[]}}]}"#;
    let server = FakeMcp::builder(Dialect::StreamableJson)
        .on("tools/list", move |_| Reply::raw_result(listed))
        .on("tools/call", |_| Reply::raw_result(ODD))
        .start();
    let sidecar = Sidecar::with_config(&config(&server.url));
    let session = Session::open(&sidecar.socket, "2025-11-25", json!({}));
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
    let list = String::from_utf8(session.send(&list).body).unwrap();
    let entry = &listed[r#"{"tools":["#.len()..listed.len() - 2];
    assert_contains!(list, entry);

    let params = call("odd", json!({}));
    let message = json!({"jsonrpc": "2.0", "id": "x", "method": "tools/call", "params": params});
    let body = String::from_utf8(session.send(&message).body).unwrap();
    let expected = format!(r#"{{"jsonrpc":"2.0","id":"x","result":{ODD}}}"#);
    assert_eq!(body, expected);

    // The revision of the request requires one more member in the result.
    let (headers, message) = stateless("tools/call", params, json!({}));
    let reply = sidecar.post_with("/mcp", &headers, message.to_string());
    let body = String::from_utf8(reply.body).unwrap();
    let rest = &ODD[1..];
    let text = format!(r#"{{"jsonrpc":"2.0","id":7,"result":{{"resultType":"complete",{rest}}}"#);
    assert_eq!(body, text);
}

#[tokio::test(flavor = "multi_thread")]
async fn e10_failed_tools_and_protocol_errors_are_unchanged() {
    let failed = r#"{"content":[{"type":"text","text":"out of paper","n":2.0}],"isError":true}"#;
    let error = json!({"code": -31999, "message": "No", "data": {"why": [1]}});
    let sent = error.clone();
    let listed = json!({"tools": [
        {"name": "fails", "inputSchema": {"type": "object"}},
        {"name": "errs", "inputSchema": {"type": "object"}},
    ]});
    let server = FakeMcp::builder(Dialect::StreamableJson)
        .on("tools/list", move |_| Reply::result(&listed))
        .on("tools/call", move |params| {
            match params["name"] == "fails" {
                true => Reply::raw_result(failed),
                false => Reply::raw_error(&sent),
            }
        })
        .start();
    let sidecar = Sidecar::with_config(&config(&server.url));
    let session = Session::open(&sidecar.socket, "2025-11-25", json!({}));
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call("fails", json!({}))});
    let body = String::from_utf8(session.send(&message).body).unwrap();
    let expected = format!(r#"{{"jsonrpc":"2.0","id":1,"result":{failed}}}"#);
    assert_eq!(body, expected);
    assert_eq!(
        session.ask("tools/call", call("errs", json!({})))["error"],
        error
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn progress_and_log_messages_come_before_the_result() {
    let notices = [
        json!({"jsonrpc": "2.0", "method": "notifications/message",
            "params": {"level": "info", "data": {"n": 1}, "extra": true}}),
        json!({"jsonrpc": "2.0", "method": "notifications/message",
            "params": {"level": "debug", "data": "fine"}}),
        json!({"jsonrpc": "2.0", "method": "notifications/progress",
            "params": {"progressToken": 1, "progress": 1, "total": 2, "message": "half"}}),
    ];
    let listed = json!({"tools": [{"name": "slow", "inputSchema": {"type": "object"}}]});
    let server = FakeMcp::builder(Dialect::Stateless)
        .on("tools/list", move |_| Reply::result(&listed))
        .on("tools/call", move |params| {
            // A client without a progress token receives no notifications.
            let token = &params["_meta"]["progressToken"];
            let notices = notices
                .iter()
                .filter(|notice| notice["method"] != "notifications/progress" || !token.is_null());
            let result = Reply::raw_result(ODD);
            notices.fold(result, |reply, notice| reply.preceded_by(notice))
        })
        .start();
    let toml = config(&server.url) + "protocol_version = \"2026-07-28\"\n";
    let sidecar = Sidecar::with_config(&toml);
    let session = Session::open(&sidecar.socket, "2025-11-25", json!({}));
    assert_eq!(
        session.ask("logging/setLevel", json!({"level": "info"}))["result"],
        json!({})
    );
    let message = json!({"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params":
        {"name": "slow", "arguments": {}, "_meta": {"progressToken": "mine"}}});
    let reply = session.send(&message);
    assert_contains!(reply.head, "text/event-stream");
    let messages = messages(&reply);
    let expected = json!({"level": "info", "data": {"n": 1}, "extra": true});
    assert_eq!(messages[0]["params"], expected);
    assert_eq!(
        messages[1]["params"],
        json!({"progressToken": "mine", "progress": 1, "total": 2, "message": "half"})
    );
    assert_eq!(messages[2]["id"], 3);
    assert_eq!(messages.len(), 3, "{messages:?}");

    // A client without a progress token receives only the result.
    let other = Session::open(&sidecar.socket, "2025-11-25", json!({}));
    let reply = other.send(&json!({"jsonrpc": "2.0", "id": 3, "method": "tools/call",
        "params": call("slow", json!({}))}));
    assert_contains!(reply.head, "application/json");
    assert_eq!(last(&reply)["id"], 3);
}
