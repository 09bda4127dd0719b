//! Requests that continue, or wait, although their clients have disconnected.

use super::*;

const MIB: u64 = 1024 * 1024;

fn configuration(far: &McpServer, more: &str) -> String {
    format!(
        "[mcp]\ndiscovery_timeout_ms = 20000\n[executor]\ntimeout_ms = 20000\n{more}\n\
         [[mcp_servers]]\nlabel = \"far\"\nurl = \"{}\"\ntransport = \"streamable_http\"\n\
         tool_prefix = \"\"\n",
        far.url
    )
}

fn tool() -> Value {
    json!([
        {"name": "echo", "inputSchema": {"type": "object"}},
        {"name": "hers", "inputSchema": {"type": "object"}},
    ])
}

/// Opens a session of a token. Returns its header.
fn open(server: &Server, token: &str) -> String {
    let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}}});
    let headers = format!("host: localhost\r\nauthorization: Bearer {token}\r\n{ACCEPT}");
    let (_, head, _) = server.send("POST /mcp", &headers, &hello.to_string());
    let id = head
        .lines()
        .find_map(|line| line.strip_prefix("mcp-session-id: "));
    format!("{headers}mcp-session-id: {}\r\n", id.unwrap().trim())
}

/// Sends a request, and disconnects after a while.
fn send_and_hang_up(server: &Server, headers: &str, message: &Value) {
    let body = message.to_string();
    let mut stream = server.connect();
    let head = format!(
        "POST /mcp HTTP/1.1\r\n{headers}content-length: {}\r\n\r\n",
        body.len()
    );
    // The sidecar may have closed the connection.
    drop(stream.write_all(head.as_bytes()));
    drop(stream.write_all(body.as_bytes()));
    thread::sleep(Duration::from_millis(50));
}

#[test]
fn the_memory_of_requests_without_clients_is_limited() {
    let far = McpServer::start(tool());
    // The list of the server's tools does not arrive, so requests wait for the list.
    far.set_mood(Mood::Asleep);
    let server = Server::start(&configuration(&far, ""));
    let headers = open(&server, RUNNER);
    let before = server.daemon.memory_bytes("VmRSS");
    let long = "x".repeat(900_000);
    let many = vec![0; 400_000];
    let message = |number: usize| {
        let (method, params) = match number % 6 {
            0 => (
                "tools/call",
                json!({"name": "echo", "arguments": {"text": long}}),
            ),
            1 => (
                "tools/call",
                json!({"name": "echo", "arguments": {"numbers": many}}),
            ),
            2 => ("tools/list", json!({"junk": long})),
            3 => (
                "prompts/get",
                json!({"name": "far", "arguments": {"text": long}}),
            ),
            4 => ("resources/read", json!({"uri": "far://x", "junk": long})),
            _ => (
                "completion/complete",
                json!({"ref": {"type": "ref/prompt", "name": "far"},
                "argument": {"name": "x", "value": long}}),
            ),
        };
        json!({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
    };
    thread::scope(|scope| {
        for client in 0..6 {
            let (server, headers, message) = (&server, &headers, &message);
            scope.spawn(move || {
                for number in 0..40 {
                    send_and_hang_up(server, headers, &message(client * 40 + number));
                }
            });
        }
    });
    let grown = server.daemon.memory_bytes("VmRSS").saturating_sub(before);
    assert!(grown < 250 * MIB, "{} MiB", grown / MIB);
    // Requests of another principal are served.
    let hers = open(&server, HERS);
    let call = call_request(1, "calculator", json!({"expression": "6*7"}));
    let (status, _, body) = server.send("POST /mcp", &hers, &call.to_string());
    assert_eq!(status, 200, "{body}");
    assert_contains!(body, "42");
    assert_eq!(far.count("tools/call"), 0);
}

#[test]
fn requests_of_sessions_and_with_keys_count_together() {
    let far = McpServer::start(tool());
    far.set_mood(Mood::Asleep);
    let server = Server::start(&configuration(&far, "[http]\nmax_detached = 3\n"));
    let headers = open(&server, RUNNER);
    let call = |id: usize| call_request(id, "echo", json!({}));
    let mut keys = 0;
    let mut with_key = |token: &str| {
        keys += 1;
        let headers = format!(
            "host: localhost\r\nauthorization: Bearer {token}\r\nidempotency-key: {keys}\r\n"
        );
        let request = "POST /api/v1/tools/execute/calculator";
        server.send(request, &headers, r#"{"expression": "6*7"}"#).0
    };
    for id in 0..2 {
        send_and_hang_up(&server, &headers, &call(id));
    }
    assert_eq!(with_key(RUNNER), 200);
    for id in 2..10 {
        send_and_hang_up(&server, &headers, &call(id));
    }
    assert_eq!(with_key(RUNNER), 429);
    assert_eq!(with_key(HERS), 200);
    // A client that waits is served, and the ID of a request that runs is rejected.
    let (status, _, body) = server.send("POST /mcp", &headers, &call(0).to_string());
    assert_eq!(status, 400, "{body}");
    let ping = json!({"jsonrpc": "2.0", "id": "p", "method": "ping"}).to_string();
    assert_eq!(server.send("POST /mcp", &headers, &ping).0, 200);
    // The end of the session ends its requests.
    assert_eq!(server.send("DELETE /mcp", &headers, "").0, 200);
    eventually("the requests have ended", || with_key(RUNNER) == 200);
    assert_eq!(far.count("tools/call"), 0);
}
