//! E9: nothing happens before the first operation; disconnecting is final until `connect`.

use pillion_testkit::{FakeWebSocket, Subprotocol};

use super::*;

const DISCONNECTED: Failure = Failure::unavailable("Not connected to server", |kind| {
    matches!(kind, McpErrorKind::Disconnected)
});

/// A time much shorter than the deadline of the tested client and the delay of a slow server.
const SOON: Duration = Duration::from_secs(10);

#[tokio::test]
async fn e9_creating_a_client_does_no_io() {
    let (server, client) = start(Dialect::StreamableJson, TransportKind::Auto);
    let _clone = client.clone();
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(server.requests.all().is_empty());
    roll(&client).await.unwrap();
}

#[tokio::test]
async fn e9_disconnected_is_an_error_until_connect() {
    let failure = DISCONNECTED;
    for (dialect, transport) in dialects() {
        let case = format!("{dialect:?}");
        let (server, client) = start(dialect, transport);
        roll(&client).await.unwrap();
        client.disconnect().await;
        let before = server.requests.all().len();
        failure.check(&roll(&client).await.unwrap_err(), &case);
        failure.check(&client.list_tools().await.unwrap_err(), &case);
        failure.check(&roll(&client.clone()).await.unwrap_err(), &case);
        assert_eq!(server.requests.all().len(), before, "{case}");
        client.connect().await.unwrap();
        assert_eq!(roll(&client).await.unwrap().get(), ROLLED, "{case}");
    }
}

#[tokio::test]
async fn e9_disconnecting_before_the_first_operation_counts() {
    let (server, client) = start(Dialect::StreamableJson, TransportKind::StreamableHttp);
    client.disconnect().await;
    let error = roll(&client).await.unwrap_err();
    assert_eq!(error.to_string(), "Not connected to server");
    assert!(server.requests.all().is_empty());
    client.connect().await.unwrap();
    client.connect().await.unwrap();
    assert_eq!(server.requests.count("initialize"), 1);
}

#[tokio::test]
async fn e9_disconnecting_ends_the_session_or_the_stream() {
    let (server, session) = start(Dialect::StreamableSse, TransportKind::StreamableHttp);
    roll(&session).await.unwrap();
    session.disconnect().await;
    let last = server.requests.all().pop().unwrap();
    assert_eq!(last.method, "DELETE");
    assert_eq!(last.header("mcp-session-id"), "session-1");

    let (server, stream) = start(LEGACY_SSE, TransportKind::LegacySse);
    roll(&stream).await.unwrap();
    assert_eq!(server.open_streams(), 1);
    stream.disconnect().await;
    eventually("the stream's end", || server.open_streams() == 0).await;
}

#[tokio::test]
async fn e9_dropping_the_client_ends_its_stream() {
    let (server, stream) = start(LEGACY_SSE, TransportKind::LegacySse);
    roll(&stream).await.unwrap();
    drop(stream);
    eventually("the stream's end", || server.open_streams() == 0).await;
}

/// Counts the requests that end a session.
fn session_ends(requests: &Recorder) -> usize {
    let all = requests.all();
    let session_ends = all.iter().filter(|request| request.method == "DELETE");
    session_ends
        .inspect(|request| assert_eq!(request.header("mcp-session-id"), "session-1"))
        .count()
}

#[tokio::test]
async fn dropping_a_client_ends_its_session_once() {
    let (server, dropped) = start(Dialect::StreamableJson, TransportKind::StreamableHttp);
    roll(&dropped).await.unwrap();
    let clone = dropped.clone();
    drop(dropped);
    roll(&clone).await.unwrap();
    assert_eq!(session_ends(&server.requests), 0);
    drop(clone);
    let is_deleted = || session_ends(&server.requests) == 1;
    eventually("the session is deleted", is_deleted).await;

    let (server, closed) = start(Dialect::StreamableJson, TransportKind::StreamableHttp);
    roll(&closed).await.unwrap();
    closed.disconnect().await;
    drop(closed);
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(session_ends(&server.requests), 1);
}

#[tokio::test]
async fn a_session_that_the_server_dropped_is_not_deleted() {
    let (server, client) = start(Dialect::StreamableJson, TransportKind::StreamableHttp);
    roll(&client).await.unwrap();
    server.forget_sessions();
    roll(&client).await.unwrap();
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(session_ends(&server.requests), 0);
}

#[tokio::test]
async fn a_connection_attempt_cancelled_after_the_handshake_ends_its_session() {
    for disconnects in [true, false] {
        let server = FaultServer::start(|request| {
            let session = [("Content-Type", JSON), ("Mcp-Session-Id", "session-1")];
            let reply = Reply::result(&json!({"protocolVersion": "2025-11-25"}));
            let response = reply.response(&request.rpc_id());
            vec![match request.rpc_method().as_str() {
                "initialize" => Fault::response_with("200 OK", &session, response),
                // The server ends the handshake slowly.
                "notifications/initialized" => Fault::Hang,
                _ => Fault::response("204 No Content", JSON, ""),
            }]
        })
        .await;
        let client = client(&server.url, TransportKind::StreamableHttp);
        let caller = client.clone();
        let call = tokio::spawn(async move { roll(&caller).await });
        received(&server.requests, "notifications/initialized", 1).await;
        if disconnects {
            client.disconnect().await;
            call.await.unwrap().unwrap_err();
        } else {
            call.abort();
            let _ = call.await;
            drop(client);
        }
        let is_deleted = || session_ends(&server.requests) == 1;
        eventually("the session is deleted", is_deleted).await;
        assert!(server.requests.calls("tools/call").is_empty());
    }
}

/// Checks that a running call ends at once when the client disconnects.
async fn ends_with_the_connection(client: McpClient, tool: &'static str, case: &str) {
    let before = Instant::now();
    let caller = client.clone();
    let call = tokio::spawn(async move { caller.call_tool(tool, &json!({})).await });
    tokio::time::sleep(Duration::from_millis(300)).await;
    client.disconnect().await;
    let error = call.await.unwrap().unwrap_err();
    DISCONNECTED.check(&error, case);
    assert!(before.elapsed() < SOON, "{case}");
}

#[tokio::test]
async fn e9_disconnecting_ends_an_attempt_to_connect() {
    for transport in [
        TransportKind::Auto,
        TransportKind::StreamableHttp,
        TransportKind::LegacySse,
    ] {
        let case = format!("{transport:?}");
        let server = FaultServer::start(|_| vec![Fault::Hang]).await;
        let client = client(&server.url, transport);
        ends_with_the_connection(client.clone(), "roll", &case).await;
        DISCONNECTED.check(&roll(&client).await.unwrap_err(), &case);
        assert_eq!(server.requests.all().len(), 1, "{case}");
    }
}

#[tokio::test]
async fn e9_disconnecting_ends_running_calls() {
    let more = [
        (Dialect::Stateless, TransportKind::Auto),
        (Dialect::LegacySse(Endpoint::Absolute), TransportKind::Auto),
    ];
    for (dialect, transport) in dialects().into_iter().chain(more) {
        let case = format!("{dialect:?}");
        let server = FakeMcp::builder(dialect)
            .with_slow_calls(Duration::from_secs(60))
            .start();
        let client = client(&server.url, transport);
        client.connect().await.unwrap();
        ends_with_the_connection(client, "roll", &case).await;
        eventually("the stream's end", || server.open_streams() == 0).await;
        assert_eq!(server.requests.count("tools/call"), 1, "{case}");
    }
    for tool in ["silent", "deaf"] {
        let server = FakeWebSocket::start(Subprotocol::Agreed).await;
        let client = client(&server.url, TransportKind::WebSocket);
        ends_with_the_connection(client, tool, tool).await;
    }
}

#[tokio::test]
async fn a_server_that_does_not_answer_initialized_can_be_used() {
    let server = FaultServer::start(|request| {
        let reply = match request.rpc_method().as_str() {
            "initialize" => Reply::result(&json!({"protocolVersion": "2025-11-25"})),
            "notifications/initialized" => return vec![Fault::Hang],
            _ => Reply::raw_result(ROLLED),
        };
        vec![Fault::reply(request, &reply)]
    })
    .await;
    let client = client(&server.url, TransportKind::StreamableHttp);
    assert_eq!(roll(&client).await.unwrap().get(), ROLLED);
}

#[tokio::test]
async fn e8_a_late_response_is_not_given_to_another_call() {
    for (dialect, transport) in dialects() {
        let case = format!("{dialect:?}");
        let server = FakeMcp::start_with(dialect, "tools/call", |params| {
            match params["name"].as_str() {
                Some("late") => Reply::raw_result("\"late\"").after(Duration::from_millis(600)),
                _ => Reply::raw_result(ROLLED),
            }
        });
        let client = client(&server.url, transport);
        client.connect().await.unwrap();
        let calls = (0..20).map(|_| {
            let client = client.clone();
            tokio::spawn(async move {
                let options = RequestOptions::default().timeout(Duration::from_millis(300));
                let call = client.call_tool_with_options("late", &(), &options);
                assert!(call.await.unwrap_err().is_timeout());
            })
        });
        for call in calls.collect::<Vec<_>>() {
            call.await.unwrap();
        }
        // Calls are made before, while and after late responses arrive.
        for _ in 0..20 {
            assert_eq!(roll(&client).await.unwrap().get(), ROLLED, "{case}");
            tokio::time::sleep(Duration::from_millis(30)).await;
        }
        assert_eq!(server.requests.count("tools/call"), 40, "{case}");
        assert!(server.requests.count("initialize") <= 1, "{case}");
    }
}

#[tokio::test]
async fn a_response_before_the_http_response_does_not_break_the_connection() {
    for (dialect, transport) in [
        (Dialect::GetSse, TransportKind::GetSse),
        (LEGACY_SSE, TransportKind::LegacySse),
    ] {
        let case = format!("{dialect:?}");
        let server = FakeMcp::builder(dialect)
            .accepting_after(Duration::from_millis(200))
            .start();
        let client = client(&server.url, transport);
        for _ in 0..5 {
            assert_eq!(roll(&client).await.unwrap().get(), ROLLED, "{case}");
        }
        let posts = || {
            let mut all = server.requests.all();
            all.retain(|request| request.method == "POST");
            all.len()
        };
        eventually(&case, || server.accepted() == posts()).await;
        assert!(posts() >= 5, "{case}");
    }
}

#[tokio::test]
async fn a_complete_list_needs_no_other_connection() {
    for (dialect, transport) in [
        (Dialect::GetSse, TransportKind::GetSse),
        (LEGACY_SSE, TransportKind::LegacySse),
    ] {
        // The connection ends after the last page.
        let server =
            FakeMcp::start_with(dialect, "tools/list", |params| match params.get("cursor") {
                None => Reply::result(&json!({"tools": [{"name": "a"}], "nextCursor": "2"})),
                Some(_) => Reply::result(&json!({"tools": [{"name": "b"}]})).last(),
            });
        let client = client(&server.url, transport);
        assert_eq!(client.list_tools().await.unwrap().len(), 2);
        assert_eq!(server.requests.count("initialize"), 1);
    }
}
