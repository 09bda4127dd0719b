//! E6: messages before the first call.

use pillion_mcp_client::{Handshake, ProtocolVersion};

use super::*;

#[tokio::test]
async fn e6_initialize_then_initialized_then_the_call_once_per_connection() {
    for (dialect, transport) in dialects() {
        if dialect == Dialect::PostSse {
            continue;
        }
        let (server, client) = start(dialect.clone(), transport);
        roll(&client).await.unwrap();
        roll(&client).await.unwrap();
        let mut summary = server.requests.summary();
        summary.retain(|line| line.starts_with("POST"));
        let expected = [
            "POST initialize",
            "POST notifications/initialized",
            "POST tools/call",
            "POST tools/call",
        ];
        assert_eq!(summary, expected, "{dialect:?}");
        let initialize = server.requests.first("initialize");
        let params = json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "pillion", "version": env!("CARGO_PKG_VERSION")},
        });
        assert_eq!(initialize["params"], params, "{dialect:?}");
        let calls = server.requests.calls("notifications/initialized");
        assert!(calls[0].json().get("id").is_none(), "{dialect:?}");
    }
}

#[tokio::test]
async fn e6_the_pinned_protocol_version_is_offered() {
    for (dialect, transport) in [
        (Dialect::StreamableJson, TransportKind::StreamableHttp),
        (Dialect::GetSse, TransportKind::GetSse),
    ] {
        let server = FakeMcp::start(dialect);
        let mut config = config(&server.url, transport);
        config.protocol_version = Some(ProtocolVersion::V2024_11_05);
        roll(&McpClient::new(config)).await.unwrap();
        let initialize = server.requests.first("initialize");
        assert_eq!(initialize["params"]["protocolVersion"], "2024-11-05");
        let call = server.requests.calls("tools/call").remove(0);
        assert_eq!(call.header("mcp-protocol-version"), "");
    }
}

#[tokio::test]
async fn e6_the_first_revision_uses_initialize_initialized_and_the_call() {
    for (dialect, transport) in [
        (Dialect::StreamableJson, TransportKind::StreamableHttp),
        (Dialect::GetSse, TransportKind::GetSse),
    ] {
        let server = FakeMcp::builder(dialect.clone())
            .on("resources/list", fixed(json!({"resources": []})))
            .on("resources/read", fixed(json!({"contents": []})))
            .start();
        let mut config = config(&server.url, transport);
        config.protocol_version = Some(ProtocolVersion::V2024_11_05);
        let client = McpClient::new(config);
        client.list_tools().await.unwrap();
        client.list_resources().await.unwrap();
        roll(&client).await.unwrap();
        client.read_resource("memo://one").await.unwrap();
        let mut summary = server.requests.summary();
        summary.retain(|line| line.starts_with("POST"));
        let expected = [
            "POST initialize",
            "POST notifications/initialized",
            "POST tools/list",
            "POST resources/list",
            "POST tools/call",
            "POST resources/read",
        ];
        assert_eq!(summary, expected, "{dialect:?}");
        let sent = |method| server.requests.first(method);
        let params = json!({
            "protocolVersion": "2024-11-05",
            "capabilities": {"tools": {}, "resources": {}},
            "clientInfo": {"name": "pillion", "version": env!("CARGO_PKG_VERSION")},
        });
        assert_eq!(sent("initialize")["params"], params, "{dialect:?}");
        assert_eq!(sent("notifications/initialized").get("id"), None);
    }
}

#[tokio::test]
async fn e6_the_version_header_has_the_revision_that_the_server_chose() {
    for (chosen, header) in [
        (json!("2025-06-18"), "2025-06-18"),
        (json!("2025-11-25"), "2025-11-25"),
        (json!("2025-03-26"), ""),
        (json!("2031-01-01"), "2025-11-25"),
        (json!(null), "2025-11-25"),
    ] {
        let result = json!({"protocolVersion": chosen, "capabilities": {}});
        let server = FakeMcp::start_with(Dialect::StreamableSse, "initialize", fixed(result));
        let client = client(&server.url, TransportKind::StreamableHttp);
        roll(&client).await.unwrap();
        let sent = |method| {
            let request = server.requests.calls(method).remove(0);
            request.header("mcp-protocol-version").to_owned()
        };
        assert_eq!(sent("initialize"), "");
        assert_eq!(sent("notifications/initialized"), header, "{chosen}");
        assert_eq!(sent("tools/call"), header, "{chosen}");
    }
}

#[tokio::test]
async fn e6_without_a_handshake_the_first_request_is_the_callers() {
    for (dialect, transport) in [
        (Dialect::PostSse, TransportKind::Auto),
        (Dialect::PostSse, TransportKind::PostSse),
        (Dialect::PlainHttp, TransportKind::Auto),
        (Dialect::PlainHttp, TransportKind::Http),
        (Dialect::GetSse, TransportKind::GetSse),
        (LEGACY_SSE, TransportKind::LegacySse),
    ] {
        let server = FakeMcp::start(dialect.clone());
        let mut config = config(&server.url, transport);
        config.handshake = Handshake::Never;
        roll(&McpClient::new(config)).await.unwrap();
        let mut summary = server.requests.summary();
        summary.retain(|line| line != "GET ");
        assert_eq!(summary, ["POST tools/call"], "{dialect:?}");
    }
}

#[tokio::test]
async fn e6_a_list_that_the_server_does_not_support_is_empty() {
    for (dialect, transport) in dialects() {
        let server = FakeMcp::start_with(dialect, "tools/list", |_| {
            Reply::error(-32601, "Method not found")
        });
        let tools = client(&server.url, transport).list_tools().await.unwrap();
        assert!(tools.is_empty());
    }
}

#[tokio::test]
async fn e6_a_failed_handshake_fails_the_call_and_is_repeated_next_time() {
    let rejects = AtomicBool::new(true);
    let server = FakeMcp::start_with(Dialect::StreamableJson, "initialize", move |_| {
        if rejects.swap(false, Ordering::SeqCst) {
            Reply::error(-32602, "Unsupported protocol version")
        } else {
            Reply::raw_result("{}")
        }
    });
    let client = client(&server.url, TransportKind::StreamableHttp);
    let error = roll(&client).await.unwrap_err();
    let text = "MCP Error -32602: Unsupported protocol version";
    assert_eq!(error.to_string(), text);
    roll(&client).await.unwrap();
    assert_eq!(server.requests.count("tools/call"), 1);
}
