//! Endless event streams: every limit applies while the client reads.

use pillion_sse::SseError;

use super::*;

const TOO_LARGE: Failure = Failure::internal(
    "MCP SSE request failed: the response is larger than 16777216 bytes",
    |kind| matches!(kind, McpErrorKind::TooLarge { .. }),
);

fn endless(bytes: impl AsRef<[u8]>) -> Vec<Fault> {
    let repeated = bytes.as_ref().repeat(1 + 16_384 / bytes.as_ref().len());
    vec![Fault::head(EVENT_STREAM), Fault::Forever(repeated)]
}

#[tokio::test]
async fn an_endless_line_is_an_error() {
    let mut faults = endless("x");
    faults.insert(1, Fault::Send(b"data: ".to_vec()));
    fails_then_works("the whole limit", faults.clone(), &TOO_LARGE).await;
    let text = "MCP SSE request failed: an event of the stream is larger than 65536 bytes";
    let failure = Failure::internal(text, |kind| {
        matches!(kind, McpErrorKind::Sse(SseError::EventTooLarge { .. }))
    });
    for faults in [faults, endless("data: xxxxxxxxxxxx\n")] {
        fails_then_works_with("an event's limit", faults, &failure, |config| {
            config.limits.max_event_bytes = 65_536;
        })
        .await;
    }
}

#[tokio::test]
async fn endless_events_are_an_error() {
    let text = "MCP SSE request failed: no response within the first 10000 events of the stream";
    let failure = Failure::internal(text, |kind| {
        matches!(kind, McpErrorKind::TooManyEvents { limit: 10_000 })
    });
    for event in ["data:\n\n", "data\r\r", "data: {\"method\":\"x\"}\n\n"] {
        fails_then_works(event, endless(event), &failure).await;
    }
}

#[tokio::test]
async fn endless_comments_are_an_error() {
    for comment in [":\n", ": keep-alive\n\n", "\n", "x: y\n", "event: x\n\n"] {
        fails_then_works(comment, endless(comment), &TOO_LARGE).await;
    }
}

#[tokio::test]
async fn a_stream_without_an_endpoint_times_out() {
    for bytes in [
        ": x\n\n",
        "data: {\"method\":\"x\"}\n\n",
        "event: x\ndata:\n\n",
    ] {
        let server = FaultServer::start(move |_| endless(bytes)).await;
        let mut config = config(&server.url, TransportKind::LegacySse);
        config.timeout = Duration::from_millis(500);
        let error = roll(&McpClient::new(config)).await.unwrap_err();
        assert!(error.is_timeout(), "{bytes}: {error:?}");
        assert_eq!(error.class(), ErrorClass::Timeout);
        let text = "MCP SSE request failed: tool 'roll' of server 'test' timed out after 0.5s";
        assert_eq!(error.to_string(), text);
    }
}

#[tokio::test]
async fn a_legacy_stream_that_violates_the_protocol_is_reopened() {
    let (server, client) = start(LEGACY_SSE, TransportKind::LegacySse);
    roll(&client).await.unwrap();
    // Garbage is skipped.
    server.push("data: {bad\n\ndata: 3\n\n: x\n\nevent: endpoint\ndata: http://evil.example/\n\n");
    server.push("data: {\"id\":99,\"result\":1}\n\ndata: {\"error\":{}}\n\n");
    roll(&client).await.unwrap();
    assert_eq!(server.open_streams(), 1);
    // Invalid UTF-8 ends the stream; the next call opens another.
    server.push(b"data: \xff\n\n");
    eventually("the stream's end", || server.open_streams() == 0).await;
    roll(&client).await.unwrap();
    assert_eq!(server.open_streams(), 1);
}

#[tokio::test]
async fn concurrent_answers_to_server_requests_are_limited() {
    let (server, client) = start(LEGACY_SSE, TransportKind::LegacySse);
    roll(&client).await.unwrap();
    let pings = "data: {\"id\":\"s\",\"method\":\"ping\"}\n\n".repeat(20_000);
    let before = server.requests.all().len();
    server.push(pings);
    roll(&client).await.unwrap();
    let answered = server.requests.all().len() - before;
    assert!(answered < 20_000, "{answered}");
    roll(&client).await.unwrap();
}
