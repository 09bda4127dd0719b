use super::*;

#[test]
fn every_revision_with_a_handshake_works() {
    let sidecar = Sidecar::start();
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let session = Session::open(&sidecar.socket, version, json!({}));
        let done = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        assert_eq!(session.send(&done).status, 202);
        assert_eq!(session.ask("ping", json!({}))["result"], json!({}));
        let tools = session.ask("tools/list", json!({}))["result"]["tools"].clone();
        assert!(tools.items().len() > 2);
    }
    // A client with an unknown revision, or one without handshake, gets the newest revision with a
    // handshake.
    for version in ["2026-07-28", "1999-01-01"] {
        let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize",
            "params": {"protocolVersion": version, "capabilities": {}}});
        let reply = sidecar.post_with("/mcp", ACCEPT, hello.to_string());
        assert_eq!(reply.json()["result"]["protocolVersion"], "2025-11-25");
    }
}

#[test]
fn a_client_can_end_its_session() {
    let sidecar = Sidecar::start();
    let session = Session::open(&sidecar.socket, "2025-11-25", json!({}));
    let mut stream = session.listen();
    let end = || sidecar.send("DELETE", "/mcp", &session.headers, b"").status;
    assert_eq!(end(), 200);
    assert_eq!(stream.next(), None);
    assert_eq!(end(), 404);
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
    let reply = session.send(&ping);
    assert_eq!(
        (reply.status, &reply.json()["error"]["code"]),
        (404, &json!(-32001))
    );
}

#[test]
fn only_its_user_can_use_a_session() {
    let sidecar = Sidecar::start();
    let alice = "x-pillion-user: alice\r\n";
    let session = Session::open_with(&sidecar.socket, "2025-11-25", json!({}), alice);
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}).to_string();
    let as_user = |user: &str| {
        let headers = format!("{ACCEPT}mcp-session-id: {}\r\n{user}", session.id);
        sidecar.post_with("/mcp", &headers, ping.as_bytes()).status
    };
    assert_eq!(as_user(alice), 200);
    assert_eq!(as_user("x-pillion-user: bob\r\n"), 404);
    assert_eq!(as_user(""), 404);
}

#[test]
fn requests_need_a_known_session_and_revision() {
    let sidecar = Sidecar::start();
    let level = json!({"jsonrpc": "2.0", "id": 1, "method": "logging/setLevel",
        "params": {"level": "info"}});
    let level = level.to_string();
    let status = |headers: &str| {
        let headers = format!("{ACCEPT}{headers}");
        sidecar.post_with("/mcp", &headers, level.as_bytes()).status
    };
    assert_eq!(status(""), 400);
    assert_eq!(status("mcp-session-id: nope\r\n"), 404);
    let id = Session::open(&sidecar.socket, "2025-11-25", json!({})).id;
    let with = |version| {
        status(&format!(
            "mcp-session-id: {id}\r\nmcp-protocol-version: {version}\r\n"
        ))
    };
    assert_eq!(with("2025-11-25"), 200);
    assert_eq!(with("soon"), 400);
    let headers = format!("accept: application/json\r\nmcp-session-id: {id}\r\n");
    assert_eq!(sidecar.get_with("/mcp", &headers).status, 406);
}

#[test]
fn two_running_requests_of_one_id_get_their_own_responses() {
    let sidecar = Sidecar::start();
    let session = Session::open(&sidecar.socket, "2025-11-25", json!({}));
    let call = |name: &str, arguments: Value| call_request(77, name, arguments);
    let sleep = call("sleep", json!({"ms": 1_000}));
    std::thread::scope(|scope| {
        let slow = scope.spawn(|| last(&session.send(&sleep)));
        sidecar.wait_for_sleeps(1);
        let quick = session.send(&call("calculator", json!({"expression": "6*7"})));
        assert_eq!(last(&quick)["result"]["content"][0]["text"], "42");
        let slow = slow.join().unwrap();
        assert_eq!(slow["id"], 77);
        assert_json!(slow["result"]["isError"], false);
    });
    // If several requests have the ID that a client cancels, all of them end, and have no response.
    let sleep = call("sleep", json!({"ms": 15_000}));
    std::thread::scope(|scope| {
        let calls = [(); 2].map(|()| scope.spawn(|| session.stream(&sleep).next()));
        sidecar.wait_for_sleeps(3);
        let cancel = cancellation(77);
        assert_eq!(session.send(&cancel).status, 202);
        for call in calls {
            assert_eq!(call.join().unwrap(), None);
        }
    });
}

#[test]
fn batches_work_only_in_the_revision_that_has_them() {
    let sidecar = Sidecar::start();
    let batch = json!([
        {"jsonrpc": "2.0", "id": 1, "method": "ping"},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": "b", "method": "tools/call",
            "params": {"name": "calculator", "arguments": {"expression": "6*7"}}},
        {"jsonrpc": "2.0", "id": 3, "method": "nope"},
        {"id": 4},
    ]);
    let old = Session::open(&sidecar.socket, "2025-03-26", json!({}));
    let responses = old.send(&batch).json();
    let expected = json!({"jsonrpc": "2.0", "id": 1, "result": {}});
    assert_eq!(responses[0], expected);
    assert_eq!(responses[1]["result"]["content"][0]["text"], "42");
    assert_eq!(responses[2]["error"]["code"], -32601);
    assert_eq!(responses[3]["error"]["code"], -32600);
    assert_eq!(responses.items().len(), 4);
    let new = Session::open(&sidecar.socket, "2025-06-18", json!({}));
    assert_eq!(new.send(&batch).status, 400);
}

#[test]
fn a_stream_does_not_delay_the_shutdown() {
    let sidecar = Sidecar::start();
    let session = Session::open(&sidecar.socket, "2025-11-25", json!({}));
    let mut stream = session.listen();
    assert_eq!(sidecar.end().cut_off_connections, 0);
    assert_eq!(stream.next(), None);
}
