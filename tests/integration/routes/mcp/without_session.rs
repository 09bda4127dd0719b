//! Clients of revisions with sessions that do not repeat the ID of their session.

use super::*;

const VERSIONS: [&str; 5] = ["", "2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];

fn post(sidecar: &Sidecar, version: &str, message: &Value) -> Reply {
    let version = match version {
        "" => String::new(),
        version => format!("mcp-protocol-version: {version}\r\n"),
    };
    let headers = format!("{ACCEPT}{version}");
    sidecar.post_with("/mcp", &headers, message.to_string())
}

fn request(method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
}

#[test]
fn requests_that_need_nothing_of_a_session_are_served() {
    let sidecar = Sidecar::start();
    for version in VERSIONS {
        for (method, params, member) in [
            ("ping", json!({}), ""),
            ("tools/list", json!({}), "/tools/0/name"),
            ("resources/list", json!({}), "/resources"),
            ("resources/templates/list", json!({}), "/resourceTemplates"),
            ("prompts/list", json!({}), "/prompts"),
            (
                "tools/call",
                json!({"name": "calculator", "arguments": {"expression": "6*7"}}),
                "/content/0/text",
            ),
        ] {
            let reply = post(&sidecar, version, &request(method, params));
            assert_eq!(reply.status, 200, "{version} {method}: {reply:?}");
            let result = &last(&reply)["result"];
            assert!(result.pointer(member).is_some(), "{method}: {result}");
            assert!(result.get("resultType").is_none(), "{method}: {result}");
        }
        let notification = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        assert_eq!(post(&sidecar, version, &notification).status, 202);
    }
    let empty = format!("{ACCEPT}mcp-session-id: \r\n");
    let list = request("tools/list", json!({})).to_string();
    let reply = sidecar.post_with("/mcp", &empty, list.as_bytes());
    assert_eq!(reply.status, 200, "{reply:?}");
    let batch = json!([
        request("tools/list", json!({})),
        request("logging/setLevel", json!({"level": "info"})),
    ]);
    let responses = post(&sidecar, "", &batch).json();
    assert!(responses[0]["result"]["tools"].is_array(), "{responses}");
    assert_json!(responses[1]["error"]["code"], -32000);
    assert_eq!(post(&sidecar, "2025-06-18", &batch).status, 400);
}

#[test]
fn what_needs_a_session_is_refused_with_the_reason() {
    let sidecar = Sidecar::start();
    for version in VERSIONS {
        for message in [
            request("logging/setLevel", json!({"level": "info"})),
            request("resources/subscribe", json!({"uri": "a://b"})),
            request("resources/unsubscribe", json!({"uri": "a://b"})),
            cancellation(1),
            json!({"jsonrpc": "2.0", "id": "pillion-1", "result": {}}),
        ] {
            let reply = post(&sidecar, version, &message);
            assert_eq!(reply.status, 400, "{message}: {reply:?}");
            let error = &reply.json()["error"];
            assert_json!(error["code"], -32000);
            let reason = error["message"].text();
            assert_contains!(reason, "requires a session", "Mcp-Session-Id");
        }
        let headers = format!("{ACCEPT}mcp-protocol-version: {version}\r\n");
        for method in ["GET", "DELETE"] {
            let headers = if version.is_empty() { ACCEPT } else { &headers };
            let reply = sidecar.send(method, "/mcp", headers, b"");
            assert_eq!(reply.status, 400, "{method}: {reply:?}");
            assert_contains!(reply.json().to_string(), "Mcp-Session-Id");
        }
    }
    // A client that sends a session ID has that session.
    let headers = format!("{ACCEPT}mcp-session-id: 0192d5a0-0000-7000-8000-000000000000\r\n");
    let list = request("tools/list", json!({})).to_string();
    let reply = sidecar.post_with("/mcp", &headers, list.as_bytes());
    assert_eq!(reply.status, 404, "{reply:?}");
}

#[test]
fn a_program_that_accepts_nothing_in_particular_gets_json() {
    let sidecar = Sidecar::start();
    let call = request(
        "tools/call",
        json!({"name": "calculator", "arguments": {"expression": "6*7"}}),
    );
    for accept in ["", "accept: */*\r\n", "accept: application/json\r\n"] {
        let reply = sidecar.post_with("/mcp", accept, call.to_string());
        assert!(
            reply.head.contains("application/json"),
            "{accept}: {reply:?}"
        );
        assert_eq!(reply.json()["result"]["content"][0]["text"], "42");
    }
}
