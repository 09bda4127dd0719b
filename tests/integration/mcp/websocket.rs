//! The client over WebSocket.

use pillion_mcp_client::{Authentication, ProtocolVersion, ServerConfigError};
use pillion_testkit::{FakeWebSocket, Subprotocol, TlsServer};

use super::*;

fn client(url: &str) -> McpClient {
    McpClient::new(config(url, TransportKind::Auto))
}

async fn call(client: &McpClient, name: &str, arguments: Value) -> Value {
    let result = client.call_tool(name, &arguments).await.unwrap();
    serde_json::from_str(result.get()).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e7_concurrent_calls_share_one_connection() {
    for subprotocol in [Subprotocol::Agreed, Subprotocol::Unnamed] {
        let server = FakeWebSocket::start(subprotocol).await;
        let client = client(&server.url);
        assert_eq!(client.list_tools().await.unwrap().len(), 1);
        let calls = (0..100).map(|number| {
            let client = client.clone();
            tokio::spawn(async move {
                let arguments = json!({"number": number, "text": "y".repeat(number * 50)});
                assert_eq!(call(&client, "echo", arguments.clone()).await, arguments);
            })
        });
        for call in calls.collect::<Vec<_>>() {
            call.await.unwrap();
        }
        assert_eq!(server.open(), 1);
        let requests = server.requests.all();
        assert_eq!(requests.len(), 1);
        assert_eq!(requests[0].header("sec-websocket-protocol"), "mcp");
    }
}

#[tokio::test]
async fn e2_garbage_binary_messages_and_server_requests_are_tolerated() {
    let server = FakeWebSocket::start(Subprotocol::Agreed).await;
    let client = client(&server.url);
    assert_eq!(call(&client, "garbage", json!({})).await["total"], 15);
    assert_eq!(call(&client, "binary", json!({})).await, "binary");
    let response = json!({"jsonrpc": "2.0", "id": "q1", "result": {}});
    assert_eq!(call(&client, "ask", json!({})).await, response);
    roll(&client).await.unwrap();
    assert_eq!(server.requests.all().len(), 1);
}

#[tokio::test]
async fn e8_credentials_travel_as_headers() {
    let server = FakeWebSocket::start(Subprotocol::Agreed).await;
    let url = format!("{}?tenant=1", server.url);
    let mut config = config(&url, TransportKind::WebSocket);
    config.authentication = Authentication::bearer("s3cret");
    config.headers.insert("X-Tenant".into(), "t1".into());
    roll(&McpClient::new(config)).await.unwrap();
    let request = &server.requests.all()[0];
    assert_eq!(request.header("authorization"), "Bearer s3cret");
    assert_eq!(request.header("x-tenant"), "t1");
    assert_eq!(request.path, "/mcp?tenant=1");
}

#[tokio::test]
async fn e9_disconnecting_sends_a_close_frame_and_dropping_does_not() {
    let server = FakeWebSocket::start(Subprotocol::Agreed).await;
    let one = client(&server.url);
    roll(&one).await.unwrap();
    one.disconnect().await;
    let is_closed = || server.close_frames() == 1 && server.open() == 0;
    eventually("the close frame", is_closed).await;
    let error = roll(&one).await.unwrap_err();
    assert_matches!(error.kind(), McpErrorKind::Disconnected);
    let other = client(&server.url);
    roll(&other).await.unwrap();
    assert_eq!(server.open(), 1);
    drop(other);
    eventually("the end", || server.open() == 0).await;
}

#[tokio::test]
async fn e9_a_lost_connection_fails_its_calls_and_the_next_call_reconnects() {
    let server = FakeWebSocket::start(Subprotocol::Agreed).await;
    let client = client(&server.url);
    for tool in ["cut", "close"] {
        let caller = client.clone();
        let sibling = tokio::spawn(async move { caller.call_tool("silent", &json!({})).await });
        tokio::time::sleep(Duration::from_millis(100)).await;
        let error = client.call_tool(tool, &json!({})).await.unwrap_err();
        assert_eq!(error.class(), ErrorClass::Unavailable, "{tool}: {error}");
        let sibling_error = sibling.await.unwrap().unwrap_err();
        assert_eq!(sibling_error.class(), ErrorClass::Unavailable);
        roll(&client).await.unwrap();
    }
    assert_eq!(server.requests.all().len(), 3);
}

#[tokio::test]
async fn e6_the_revision_that_the_server_answers_with_is_used() {
    let server = FakeWebSocket::start(Subprotocol::Agreed).await;
    let client = client(&server.url);
    let spoken = async || {
        roll(&client).await.unwrap();
        client.connection().await.unwrap().protocol_version
    };
    // The server changes its revision with each lost connection: to an older one, to one without a
    // handshake, and back.
    for (revision, expected) in [
        ("2025-06-18", ProtocolVersion::V2025_06_18),
        ("2025-03-26", ProtocolVersion::V2025_03_26),
        ("2026-07-28", ProtocolVersion::V2026_07_28),
        ("2025-11-25", ProtocolVersion::V2025_11_25),
    ] {
        server.speak(revision);
        assert_eq!(spoken().await, Some(expected));
        client.call_tool("cut", &json!({})).await.unwrap_err();
    }
    // With a pinned revision, only that revision is accepted.
    server.speak("2026-07-28");
    let mut pinned = config(&server.url, TransportKind::Auto);
    pinned.protocol_version = Some(ProtocolVersion::V2025_11_25);
    let error = roll(&McpClient::new(pinned)).await.unwrap_err();
    assert_eq!(error.rpc_error().unwrap().code, -32022);
}

#[tokio::test]
async fn l1_a_message_that_is_too_large_is_not_read() {
    let server = FakeWebSocket::start(Subprotocol::Agreed).await;
    let mut config = config(&server.url, TransportKind::Auto);
    config.limits.max_event_bytes = 100_000;
    let client = McpClient::new(config);
    let fits = call(&client, "large", json!({"bytes": 90_000})).await;
    assert_eq!(fits.text().len(), 90_000);
    let error = client
        .call_tool("large", &json!({"bytes": 8 << 20}))
        .await
        .unwrap_err();
    assert_matches!(error.kind(), McpErrorKind::TooLarge { limit: 100_000 });
    roll(&client).await.unwrap();
}

#[tokio::test]
async fn c2_a_vanished_server_is_detected_by_missing_pongs() {
    let server = FakeWebSocket::start(Subprotocol::Agreed).await;
    let client = client_within(&server.url, TransportKind::Auto, Duration::from_secs(3600));
    roll(&client).await.unwrap();
    // The paused clock advances whenever the runtime is idle.
    tokio::time::pause();
    let error = client.call_tool("deaf", &json!({})).await.unwrap_err();
    assert_matches!(error.kind(), McpErrorKind::StreamClosed);
}

#[tokio::test]
async fn c2_a_call_to_a_silent_server_ends_at_the_deadline() {
    let server = FakeWebSocket::start(Subprotocol::Agreed).await;
    let client = client_within(&server.url, TransportKind::Auto, Duration::from_millis(300));
    let error = client.call_tool("silent", &json!({})).await.unwrap_err();
    assert!(error.is_timeout());
    roll(&client).await.unwrap();
    assert_eq!(server.requests.all().len(), 1);
}

#[tokio::test]
async fn e7_a_server_without_websocket_is_a_clear_error() {
    let another = FakeWebSocket::start(Subprotocol::Another).await;
    let error = client(&another.url).list_tools().await.unwrap_err();
    assert_matches!(error.kind(), McpErrorKind::NotWebSocket);

    let head = |accept: &str| {
        let head = format!(
            "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Accept: {accept}\r\n\r\n"
        );
        vec![Fault::Send(head.into_bytes()), Fault::Hang]
    };
    for (faults, is_expected) in [
        (
            vec![Fault::json("{}")],
            (|kind| matches!(kind, McpErrorKind::NotWebSocket)) as fn(&McpErrorKind) -> bool,
        ),
        (head("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="), |kind| {
            matches!(kind, McpErrorKind::NotWebSocket)
        }),
        (
            vec![Fault::response("401 Unauthorized", JSON, "{}")],
            |kind| matches!(kind, McpErrorKind::HttpStatus { status: 401, .. }),
        ),
        (
            vec![Fault::redirect("302 Found", "http://127.0.0.1:1/")],
            |kind| matches!(kind, McpErrorKind::Redirect),
        ),
        (vec![Fault::Close], |kind| {
            matches!(kind, McpErrorKind::ConnectionBroken(_))
        }),
    ] {
        let server = FaultServer::start(move |_| faults.clone()).await;
        let url = server.url.replace("http://", "ws://");
        let error = client(&url).list_tools().await.unwrap_err();
        assert!(is_expected(error.kind()), "{error}");
    }
}

#[tokio::test]
async fn e8_an_untrusted_certificate_is_refused() {
    let server = TlsServer::untrusted();
    let url = server.url.replace("https://", "wss://");
    let error = client(&url).list_tools().await.unwrap_err();
    assert_matches!(error.kind(), McpErrorKind::ConnectionFailed(_));
    assert_eq!(server.handshakes(), 0);
}

#[test]
fn e7_the_scheme_selects_the_transport_and_a_mismatch_is_rejected() {
    for (url, transport, fits) in [
        ("ws://h.example/", TransportKind::WebSocket, true),
        ("wss://h.example/", TransportKind::Auto, true),
        ("ws://h.example/", TransportKind::Http, false),
        ("https://h.example/", TransportKind::WebSocket, false),
        ("https://h.example/", TransportKind::Stdio, false),
    ] {
        let mut config = ServerConfig::new("x", url).unwrap();
        let address = config.url().unwrap().clone();
        config.egress.allow_http_for(&address);
        config.transport = transport;
        let expected = if fits {
            Ok(())
        } else {
            Err(ServerConfigError::Transport)
        };
        assert_eq!(config.validate(), expected, "{url} {transport:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e7_a_real_server_of_the_official_python_sdk() {
    let Some(peer) = Peer::new("mcp1-websocket") else {
        return;
    };
    let client = client(&peer.url);
    let tools = client.list_tools().await.unwrap();
    assert!(tools.iter().any(|tool| tool.get().contains("\"roll\"")));
    let rolled = call(&client, "roll", json!({"dice": "2d6"})).await;
    assert_contains!(rolled["content"][0]["text"].text(), "2d6");
    let calls = (0..50).map(|number| {
        let client = client.clone();
        tokio::spawn(async move { call(&client, "add", json!({"a": number, "b": 1})).await })
    });
    for (number, call) in calls.collect::<Vec<_>>().into_iter().enumerate() {
        let sum = (number + 1).to_string();
        assert_eq!(call.await.unwrap()["content"][0]["text"], sum);
    }
    // After the server's restart, a call succeeds, at the latest the second one.
    let peer = peer.restart();
    let mut again = roll(&client).await;
    if again.is_err() {
        again = roll(&client).await;
    }
    again.unwrap();
    client.disconnect().await;
    drop(peer);
}
