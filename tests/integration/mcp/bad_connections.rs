//! Connections that break, stall or cannot be opened.

use pillion_testkit::TlsServer;

use super::*;

fn send(bytes: &str) -> Fault {
    Fault::Send(bytes.as_bytes().to_vec())
}

/// Makes a call that must fail as a broken connection; the next call must succeed.
async fn breaks_then_works(case: &str, faults: Vec<Fault>) {
    let server = faulty_once(faults).await;
    let client = client(&server.url, TransportKind::PostSse);
    let error = roll(&client).await.unwrap_err();
    assert_matches!(error.kind(), McpErrorKind::ConnectionBroken(_), "{case}");
    assert_eq!(error.class(), ErrorClass::Unavailable, "{case}");
    let text = error.to_string();
    let start = "MCP SSE request failed: the connection was lost: ";
    assert_starts_with!(text, start);
    assert!(text.len() > start.len(), "{text}");
    assert_lacks!(text, "127.0.0.1");
    roll(&client).await.unwrap();
    assert_eq!(server.requests.count("tools/call"), 2, "{case}");
}

#[tokio::test]
async fn a_connection_that_breaks_is_an_error() {
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n";
    let of_type = |content_type| format!("{chunked}Content-Type: {content_type}\r\n\r\n");
    let (json, stream) = (of_type(JSON), of_type(EVENT_STREAM));
    let length = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 500\r\n\r\n";
    let max = u64::MAX.to_string();
    let bad_header = "HTTP/1.1 200 OK\r\nbad header\r\n\r\n";
    for (case, bytes) in [
        ("closed at once", String::new()),
        ("half a status line", "HTTP/1.1 20".into()),
        ("no HTTP", "SSH-2.0-OpenSSH_9\r\n\r\n".into()),
        ("a bad status", "HTTP/1.1 abc OK\r\n\r\n".into()),
        ("a bad header", bad_header.into()),
        (
            "two lengths",
            length.replace("\r\n\r\n", "\r\nContent-Length: 3\r\n\r\nabc"),
        ),
        ("a truncated chunk", format!("{json}ff\r\n{{\"id\"")),
        ("a bad chunk size", format!("{json}zz\r\n")),
        (
            "a truncated chunk of a stream",
            format!("{stream}ff\r\ndata: {{"),
        ),
        ("no last chunk", format!("{stream}7\r\ndata: x\r\n")),
        ("the greatest length", length.replace("500", &max)),
        ("less than announced", format!("{length}{{\"id\"")),
    ] {
        breaks_then_works(case, vec![send(&bytes), Fault::Close]).await;
    }
}

#[tokio::test]
async fn endless_headers_are_an_error() {
    let start = send("HTTP/1.1 200 OK\r\n");
    let many = vec![start.clone(), Fault::Forever(b"X-A: b\r\n".to_vec())];
    breaks_then_works("many", many).await;
    let long = vec![start, send("X-A: "), Fault::Forever(vec![b'x'; 65_536])];
    breaks_then_works("one", long).await;
}

#[tokio::test]
async fn bytes_beyond_content_length_are_ignored() {
    let text = "MCP SSE request failed: the response is not a JSON-RPC message: EOF while parsing \
                a value at line 1 column 5";
    let failure = Failure::internal(text, |kind| matches!(kind, McpErrorKind::InvalidMessage(_)));
    let bytes = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 5\r\n\r\n\
                 {\"a\":1}HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
    super::fails_then_works("mismatch", vec![send(bytes)], &failure).await;
}

#[tokio::test]
async fn a_silent_server_times_out() {
    let pause = Duration::from_millis(50);
    let slow_drip = |bytes: &str| {
        let drip = |byte| [Fault::Send(vec![byte]), Fault::Wait(pause)];
        bytes.bytes().flat_map(drip).collect::<Vec<_>>()
    };
    let drips = "data: x\n\n".repeat(100);
    let mut dripping_stream = vec![Fault::head(EVENT_STREAM)];
    dripping_stream.extend(slow_drip(&drips));
    let mut dripping_json = vec![Fault::head(JSON)];
    dripping_json.extend(slow_drip(&" ".repeat(900)));
    let failure = Failure {
        class: ErrorClass::Timeout,
        text: "MCP SSE request failed: tool 'roll' of server 'test' timed out after 0.4s",
        kind: |kind| matches!(kind, McpErrorKind::Timeout { .. }),
    };
    let half_head = send("HTTP/1.1 200 OK\r\n");
    for (case, faults) in [
        ("nothing", vec![Fault::Hang]),
        ("half a head", vec![half_head, Fault::Hang]),
        ("no event", vec![Fault::head(EVENT_STREAM), Fault::Hang]),
        ("no JSON", vec![Fault::head(JSON), send("{"), Fault::Hang]),
        ("a dripping head", slow_drip(&"HTTP/1.1 200 OK".repeat(20))),
        ("a dripping stream", dripping_stream),
        ("dripping JSON", dripping_json),
    ] {
        let started = Instant::now();
        let deadline = Duration::from_millis(400);
        fails_then_works_with(case, faults, &failure, |config| config.timeout = deadline).await;
        assert!(started.elapsed() < Duration::from_secs(10), "{case}");
    }
}

#[tokio::test]
async fn a_silent_server_times_out_over_every_transport() {
    let server = FaultServer::start(|_| vec![Fault::Hang]).await;
    let transports = dialects().map(|(_, transport)| transport);
    for transport in transports.into_iter().chain([TransportKind::Auto]) {
        let client = client_within(&server.url, transport, Duration::from_millis(200));
        let error = roll(&client).await.unwrap_err();
        assert!(error.is_timeout(), "{transport:?}: {error:?}");
        assert!(client.list_tools().await.unwrap_err().is_timeout());
        assert!(client.connect().await.is_err() || transport == TransportKind::PostSse);
        assert!(!client.is_available().await);
        client.disconnect().await;
    }
}

#[tokio::test]
async fn a_refused_port_is_an_error_over_every_transport() {
    let origin = format!("http://{}", crate::http::free_address());
    let url = format!("{origin}/mcp?key=hunter2");
    let transports = dialects().map(|(_, transport)| transport);
    for transport in transports.into_iter().chain([TransportKind::Auto]) {
        let client = client(&url, transport);
        let error = roll(&client).await.unwrap_err();
        assert_matches!(error.kind(), McpErrorKind::ConnectionFailed(_));
        assert_eq!(error.class(), ErrorClass::Unavailable);
        let end = format!("request failed: Connection refused (os error 111) ({origin})");
        assert_ends_with!(error.to_string(), &end);
        assert!(!client.is_available().await);
    }
}

#[tokio::test]
async fn a_host_without_an_address_is_an_error() {
    for transport in [TransportKind::Auto, TransportKind::LegacySse] {
        let client = client("https://no-such-host.invalid/mcp", transport);
        let (first, second) = tokio::join!(roll(&client), client.list_tools());
        for error in [first.map(drop).unwrap_err(), second.map(drop).unwrap_err()] {
            assert_eq!(error.class(), ErrorClass::Unavailable, "{error:?}");
            assert_matches!(error.kind(), McpErrorKind::ConnectionFailed(_));
        }
    }
}

#[tokio::test]
async fn a_server_that_starts_later_is_reached() {
    let address = crate::http::free_address();
    let client = client(&format!("http://{address}/mcp"), TransportKind::PostSse);
    roll(&client).await.unwrap_err();
    let listener = tokio::net::TcpListener::bind(address).await.unwrap();
    let _server = FaultServer::on(listener, good_response);
    roll(&client).await.unwrap();
}

#[tokio::test]
async fn an_untrusted_certificate_is_rejected() {
    let server = TlsServer::untrusted();
    for transport in [TransportKind::Auto, TransportKind::LegacySse] {
        let error = roll_error(&server.url, transport).await;
        assert_matches!(error.kind(), McpErrorKind::ConnectionFailed(_));
        assert_eq!(error.class(), ErrorClass::Unavailable);
        assert_contains!(error.to_string(), "certificate");
    }
    assert_eq!(server.handshakes(), 0);
}

#[tokio::test]
async fn tls_with_a_server_without_tls_is_an_error() {
    let server = faulty_once(vec![]).await;
    let url = server.url.replace("http://", "https://");
    let mut config = config(&url, TransportKind::PostSse);
    config.timeout = Duration::from_secs(2);
    let error = roll(&McpClient::new(config)).await.unwrap_err();
    assert_matches!(error.class(), ErrorClass::Unavailable | ErrorClass::Timeout);
    assert!(server.requests.all().is_empty());
}
