//! E9: nothing happens before the first operation; disconnecting is final until `connect`.

use std::time::Duration;

use pillion_core::mcp::{McpErrorKind, TransportKind};
use pillion_core::tool::ErrorCode;
use pillion_testkit::{Dialect, Endpoint, FakeMcp};

use super::{Failure, ROLLED, client, dialects, eventually, roll};

#[tokio::test]
async fn e9_making_a_client_does_no_io() {
    let server = FakeMcp::start(Dialect::StreamableJson);
    let client = client(&server.url, TransportKind::Auto);
    let _clone = client.clone();
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(server.requests.all().is_empty());
    roll(&client).await.unwrap();
}

#[tokio::test]
async fn e9_disconnected_is_an_error_until_connect() {
    let failure = Failure {
        code: ErrorCode::Unavailable,
        text: "Not connected to server",
        kind: |kind| matches!(kind, McpErrorKind::Disconnected),
    };
    for (dialect, transport) in dialects() {
        let case = format!("{dialect:?}");
        let server = FakeMcp::start(dialect);
        let client = client(&server.url, transport);
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
    let server = FakeMcp::start(Dialect::StreamableJson);
    let client = client(&server.url, TransportKind::StreamableHttp);
    client.disconnect().await;
    let error = roll(&client).await.unwrap_err();
    assert_eq!(error.to_string(), "Not connected to server");
    assert!(server.requests.all().is_empty());
    client.connect().await.unwrap();
    client.connect().await.unwrap();
    assert_eq!(server.requests.calls("initialize").len(), 1);
}

#[tokio::test]
async fn e9_disconnecting_ends_the_session_or_the_stream() {
    let server = FakeMcp::start(Dialect::StreamableSse);
    let session = client(&server.url, TransportKind::StreamableHttp);
    roll(&session).await.unwrap();
    session.disconnect().await;
    let last = server.requests.all().pop().unwrap();
    assert_eq!(last.method, "DELETE");
    assert_eq!(last.header("mcp-session-id"), "session-1");

    let server = FakeMcp::start(Dialect::LegacySse(Endpoint::Relative));
    let stream = client(&server.url, TransportKind::LegacySse);
    roll(&stream).await.unwrap();
    assert_eq!(server.open_streams(), 1);
    stream.disconnect().await;
    eventually("the stream's end", || server.open_streams() == 0).await;
}

#[tokio::test]
async fn e9_dropping_the_client_ends_its_stream() {
    let server = FakeMcp::start(Dialect::LegacySse(Endpoint::Relative));
    let stream = client(&server.url, TransportKind::LegacySse);
    roll(&stream).await.unwrap();
    drop(stream);
    eventually("the stream's end", || server.open_streams() == 0).await;
}
