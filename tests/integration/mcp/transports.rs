//! E7: every transport, pinned and detected.

use super::*;

#[tokio::test]
async fn e7_every_transport_works_pinned_and_detected() {
    for (dialect, pinned) in dialects() {
        for transport in [pinned, TransportKind::Auto] {
            let (_server, client) = start(dialect.clone(), transport);
            let case = format!("{dialect:?} as {transport:?}");
            assert_eq!(roll(&client).await.unwrap().get(), ROLLED, "{case}");
            let tools = client.list_tools().await.unwrap();
            assert_eq!(tools.len(), 1, "{case}");
            assert!(client.is_available().await, "{case}");
        }
    }
}

#[tokio::test]
async fn e7_the_detected_transport_is_cached() {
    for (dialect, _) in dialects() {
        let (server, client) = start(dialect.clone(), TransportKind::Auto);
        roll(&client).await.unwrap();
        let first = server.requests.all().len();
        client.disconnect().await;
        client.connect().await.unwrap();
        roll(&client).await.unwrap();
        let mut again = server.requests.summary().split_off(first);
        again.retain(|line| line != "DELETE ");
        let expected: &[&str] = match dialect {
            Dialect::PostSse => &["POST tools/call"],
            Dialect::GetSse | Dialect::LegacySse(_) => &[
                "GET ",
                "POST initialize",
                "POST notifications/initialized",
                "POST tools/call",
            ],
            _ => &[
                "POST initialize",
                "POST notifications/initialized",
                "POST tools/call",
            ],
        };
        assert_eq!(again, expected, "{dialect:?}");
    }
}

#[tokio::test]
async fn e7_ids_are_integers_from_1_except_for_post_sse() {
    for (dialect, transport) in dialects() {
        let (server, client) = start(dialect.clone(), transport);
        roll(&client).await.unwrap();
        roll(&client).await.unwrap();
        let mut ids: Vec<_> = server.requests.all();
        ids.retain(|request| request.rpc_id() != "null");
        let ids: Vec<_> = ids.iter().map(|request| request.rpc_id()).collect();
        if dialect == Dialect::PostSse {
            assert!(ids.iter().all(|id| id.starts_with("\"mcp_")), "{ids:?}");
            assert_ne!(ids[0], ids[1]);
        } else {
            assert_eq!(ids, ["1", "2", "3"], "{dialect:?}");
        }
    }
}

#[tokio::test]
async fn e7_an_endpoint_may_be_relative_or_absolute() {
    for endpoint in [Endpoint::Relative, Endpoint::Absolute] {
        let (server, client) = start(Dialect::LegacySse(endpoint), TransportKind::LegacySse);
        assert_eq!(roll(&client).await.unwrap().get(), ROLLED);
        let call = server.requests.calls("tools/call").remove(0);
        assert_eq!(call.path, "/messages?session=1");
    }
}

#[tokio::test]
async fn e7_an_endpoint_of_another_origin_is_refused_without_a_request() {
    let elsewhere = FakeMcp::start(Dialect::PlainHttp);
    let endpoint = Endpoint::Text(elsewhere.url.clone());
    let server = FakeMcp::start(Dialect::LegacySse(endpoint));
    let text = "MCP SSE request failed: the server announced an SSE endpoint that is invalid or \
                has another origin";
    let failure = Failure::unavailable(text, |kind| matches!(kind, McpErrorKind::ForeignEndpoint));
    let client = client(&server.url, TransportKind::LegacySse);
    failure.check(&roll(&client).await.unwrap_err(), "foreign endpoint");
    assert!(elsewhere.requests.all().is_empty());
}

#[tokio::test]
async fn e7_a_request_from_the_server_is_answered() {
    let (server, client) = start(LEGACY_SSE, TransportKind::LegacySse);
    roll(&client).await.unwrap();
    server.push("data: {\"jsonrpc\":\"2.0\",\"id\":\"s1\",\"method\":\"ping\"}\n\n");
    server.push("data: {\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"roots/list\"}\n\n");
    let responses = [
        json!({"jsonrpc": "2.0", "id": "s1", "result": {}}),
        json!({
            "jsonrpc": "2.0", "id": 2,
            "error": {"code": -32601, "message": "Method not found"},
        }),
    ];
    eventually("both answers", || {
        let all: Vec<_> = server.requests.all().iter().map(Recorded::json).collect();
        responses.iter().all(|response| all.contains(response))
    })
    .await;
    roll(&client).await.unwrap();
}

#[tokio::test]
async fn e7_a_closed_stream_is_reopened() {
    for (dialect, transport) in [
        (LEGACY_SSE, TransportKind::LegacySse),
        (Dialect::GetSse, TransportKind::GetSse),
    ] {
        let server = FakeMcp::start_with(dialect, "wait", |_| {
            Reply::raw_result("{}").after(Duration::from_secs(60))
        });
        let client = client(&server.url, transport);
        roll(&client).await.unwrap();
        // A running call fails and is not retried.
        let waiting = client.clone();
        let call = tokio::spawn(async move { waiting.request("wait", &json!({})).await });
        received(&server.requests, "wait", 1).await;
        server.close_streams();
        let text = "MCP SSE request failed: the server closed the connection";
        let failure = Failure::unavailable(text, |kind| matches!(kind, McpErrorKind::StreamClosed));
        failure.check(&call.await.unwrap().unwrap_err(), "closed");
        assert_eq!(roll(&client).await.unwrap().get(), ROLLED);
        assert_eq!(server.requests.count("wait"), 1);
    }
}
