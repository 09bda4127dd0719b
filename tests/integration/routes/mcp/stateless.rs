use super::*;

fn post(sidecar: &Sidecar, headers: &str, body: &Value) -> Reply {
    sidecar.post_with("/mcp", headers, body.to_string())
}

fn status_and_code(reply: &Reply) -> (u16, i64) {
    let error = reply.json();
    assert_json!(error["id"], 7);
    (reply.status, error["error"]["code"].as_i64().unwrap())
}

#[test]
fn discovery_makes_no_upstream_requests() {
    let sidecar = Sidecar::start();
    let (headers, body) = stateless("server/discover", json!({}), json!({}));
    let result = post(&sidecar, &headers, &body).json()["result"].clone();
    assert_eq!(result["supportedVersions"], json!(["2026-07-28"]));
    let expected = json!({"listChanged": true});
    assert_eq!(result["capabilities"]["tools"], expected);
    let server = &result["_meta"]["io.modelcontextprotocol/serverInfo"];
    assert_eq!(server["name"], "pillion");
    assert_json!(result["ttlMs"], 0);
    assert_json!(result["cacheScope"], "private");
}

#[test]
fn requests_need_all_metadata_and_matching_headers() {
    let sidecar = Sidecar::start();
    let call = json!({"name": "get_time", "arguments": {}});
    let (headers, body) = stateless("tools/call", call, json!({}));
    assert_eq!(post(&sidecar, &headers, &body).status, 200);
    let without = |key: &str| {
        let mut body = body.clone();
        let meta = body["params"]["_meta"].as_object_mut().unwrap();
        meta.remove(&format!("io.modelcontextprotocol/{key}"))
            .unwrap();
        status_and_code(&post(&sidecar, &headers, &body))
    };
    assert_eq!(without("protocolVersion"), (400, -32602));
    assert_eq!(without("clientCapabilities"), (400, -32602));
    for (from, to) in [
        ("mcp-method: tools/call", "mcp-method: tools/list"),
        ("mcp-method: tools/call\r\n", ""),
        ("mcp-name: get_time", "mcp-name: calculator"),
        ("mcp-name: get_time\r\n", ""),
        ("mcp-protocol-version: 2026-07-28\r\n", ""),
        ("mcp-name: get_time", "mcp-name: =?base64?!!?="),
    ] {
        let headers = headers.replace(from, to);
        assert_eq!(
            status_and_code(&post(&sidecar, &headers, &body)),
            (400, -32020),
            "{to}"
        );
    }
    let encoded = headers.replace("mcp-name: get_time", "mcp-name: =?base64?Z2V0X3RpbWU=?=");
    assert_eq!(post(&sidecar, &encoded, &body).status, 200);
}

#[test]
fn an_unsupported_revision_is_rejected_with_the_supported_ones() {
    let sidecar = Sidecar::start();
    let (headers, mut body) = stateless("tools/list", json!({}), json!({}));
    body["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2099-01-01");
    let headers = headers.replace("2026-07-28", "2099-01-01");
    let reply = post(&sidecar, &headers, &body);
    assert_eq!(status_and_code(&reply), (400, -32022));
    let data = &reply.json()["error"]["data"];
    let expected = json!({"supported": ["2026-07-28"], "requested": "2099-01-01"});
    assert_eq!(*data, expected);
}

#[test]
fn methods_of_other_revisions_are_not_found() {
    let sidecar = Sidecar::start();
    for method in [
        "initialize",
        "ping",
        "logging/setLevel",
        "resources/subscribe",
        "nope",
    ] {
        let (headers, body) = stateless(method, json!({}), json!({}));
        assert_eq!(
            status_and_code(&post(&sidecar, &headers, &body)),
            (404, -32601),
            "{method}"
        );
    }
    let headers = format!("{ACCEPT}mcp-protocol-version: 2026-07-28\r\n");
    for verb in ["GET", "DELETE"] {
        let reply = sidecar.send(verb, "/mcp", &headers, b"");
        assert_eq!(reply.status, 405);
        assert_contains!(reply.head, "allow: post");
    }
}

#[test]
fn pages_of_other_machines_are_refused() {
    let sidecar = Sidecar::start();
    let (headers, body) = stateless("tools/list", json!({}), json!({}));
    let with = |origin: &str| post(&sidecar, &format!("{headers}origin: {origin}\r\n"), &body);
    assert_eq!(with("http://localhost:8080").status, 200);
    assert_eq!(with("http://evil.example.com").status, 403);
}

#[test]
fn hostile_messages_are_answered_by_errors() {
    let sidecar = Sidecar::start();
    let deep = "[".repeat(100_000);
    let nested = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"x","params":{{"a":{deep}"#);
    for body in [
        "",
        "{",
        "nul",
        "\u{0}",
        deep.as_str(),
        nested.as_str(),
        "{}",
        "3",
    ] {
        let headers = format!("{ACCEPT}mcp-protocol-version: 2026-07-28\r\n");
        let reply = sidecar.post_with("/mcp", &headers, body.as_bytes());
        assert_eq!(
            reply.status,
            400,
            "{}",
            String::from_utf8_lossy(&reply.body)
        );
        assert!(reply.json()["error"]["code"].is_i64());
    }
    let reply = sidecar.post_with("/mcp", ACCEPT, b"{\"a\": \"\xff\"}");
    assert_eq!(reply.status, 400);
    let long = vec![b' '; 2 * 1024 * 1024];
    assert_eq!(sidecar.post_with("/mcp", ACCEPT, &long).status, 413);
}
