//! Sessions of Streamable HTTP.

mod answered;

use super::*;

#[tokio::test]
async fn the_session_id_is_in_every_request_after_the_handshake() {
    for dialect in [Dialect::StreamableJson, Dialect::StreamableSse] {
        let (server, client) = start(dialect, TransportKind::StreamableHttp);
        roll(&client).await.unwrap();
        client.list_tools().await.unwrap();
        let mut requests = server.requests.all();
        let first = requests.remove(0);
        assert!(!first.headers.contains_key("mcp-session-id"));
        for request in requests {
            assert_eq!(request.header("mcp-session-id"), "session-1");
        }
    }
}

/// Makes a call before and two calls after the server forgets its sessions; each runs once.
async fn call_after_expiry(dialect: Dialect, transport: TransportKind) -> (FakeMcp, McpClient) {
    let executed = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&executed);
    let server = FakeMcp::start_with(dialect, "tools/call", move |_| {
        counter.fetch_add(1, Ordering::SeqCst);
        Reply::raw_result(ROLLED)
    });
    let client = client(&server.url, transport);
    roll(&client).await.unwrap();
    server.forget_sessions();
    assert_eq!(roll(&client).await.unwrap().get(), ROLLED);
    assert_eq!(roll(&client).await.unwrap().get(), ROLLED);
    assert_eq!(executed.load(Ordering::SeqCst), 3);
    assert_eq!(server.requests.count("initialize"), 2);
    (server, client)
}

#[tokio::test]
async fn an_expired_session_is_replaced_and_each_call_runs_once() {
    for dialect in [Dialect::StreamableJson, Dialect::StreamableSse] {
        let (server, _client) = call_after_expiry(dialect, TransportKind::Auto).await;
        // The request that got status 404 was sent twice, in two sessions.
        let calls = server.requests.calls("tools/call");
        let sessions = calls.iter().map(|call| call.header("mcp-session-id"));
        let expected = ["session-1", "session-1", "session-2", "session-2"];
        assert!(sessions.eq(expected), "{calls:?}");
    }
}

#[tokio::test]
async fn many_calls_in_an_expired_session_open_one_new_session() {
    let (server, client) = start(Dialect::StreamableSse, TransportKind::StreamableHttp);
    roll(&client).await.unwrap();
    server.forget_sessions();
    let calls = (0..50).map(|_| {
        let client = client.clone();
        tokio::spawn(async move { roll(&client).await.unwrap().get().to_owned() })
    });
    for call in calls.collect::<Vec<_>>() {
        assert_eq!(call.await.unwrap(), ROLLED);
    }
    assert_eq!(server.requests.count("initialize"), 2);
}

/// Starts a server with sessions that answers calls with this fault.
async fn rejecting(fault: impl Fn(&Recorded) -> Fault + Send + Sync + 'static) -> FaultServer {
    FaultServer::start(move |request| match request.rpc_method().as_str() {
        "tools/call" => vec![fault(request)],
        _ => in_session(request),
    })
    .await
}

#[tokio::test]
async fn a_session_that_always_expires_at_once_is_an_error() {
    let server = rejecting(|_| Fault::response("404 Not Found", JSON, "")).await;
    let text = "MCP request failed: the session has expired";
    let failure = Failure::unavailable(text, |kind| matches!(kind, McpErrorKind::SessionExpired));
    let error = roll_error(&server.url, TransportKind::StreamableHttp).await;
    failure.check(&error, "404 always");
    assert_eq!(server.requests.count("tools/call"), 2);
}

#[tokio::test]
async fn a_tool_that_reports_its_own_missing_session_is_called_once() {
    let server = rejecting(|request| {
        let error = Reply::error(-32602, "no such game session");
        Fault::response("400 Bad Request", JSON, error.response(&request.rpc_id()))
    })
    .await;
    let error = roll_error(&server.url, TransportKind::StreamableHttp).await;
    assert_eq!(error.rpc_error().unwrap().code, -32602);
    assert_eq!(server.requests.count("tools/call"), 1);
    assert_eq!(server.requests.count("initialize"), 1);
}

#[tokio::test]
async fn e7_an_expired_endpoint_is_replaced_though_its_stream_is_open() {
    let (server, _client) = call_after_expiry(LEGACY_SSE, TransportKind::LegacySse).await;
    // The request that got status 404 was sent twice.
    assert_eq!(server.requests.count("tools/call"), 4);
    eventually("the end of the first stream", || server.open_streams() == 1).await;
}

#[tokio::test]
async fn e7_a_running_call_is_answered_on_the_stream_of_an_expired_endpoint() {
    let server = FakeMcp::start_with(LEGACY_SSE, "tools/call", |params| {
        match params["name"].as_str() {
            Some("slow") => Reply::raw_result("\"slow\"").after(Duration::from_secs(1)),
            _ => Reply::raw_result(ROLLED),
        }
    });
    let client = client(&server.url, TransportKind::LegacySse);
    client.connect().await.unwrap();
    let caller = client.clone();
    let slow = tokio::spawn(async move { caller.call_tool("slow", &json!({})).await });
    received(&server.requests, "tools/call", 1).await;
    server.forget_sessions();
    assert_eq!(roll(&client).await.unwrap().get(), ROLLED);
    assert_eq!(slow.await.unwrap().unwrap().get(), "\"slow\"");
    assert_eq!(server.requests.count("tools/call"), 3);
}

#[tokio::test]
async fn a_tool_of_a_server_with_handshake_may_use_the_code_of_a_header_mismatch() {
    let server = FakeMcp::start_with(Dialect::StreamableJson, "tools/call", |_| {
        Reply::error(-32020, "the dice are gone")
    });
    let error = roll_error(&server.url, TransportKind::Auto).await;
    assert_eq!(error.rpc_error().unwrap().code, -32020);
    assert_eq!(server.requests.count("tools/call"), 1);
}
