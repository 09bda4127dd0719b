//! E3 and E4: messages of errors, in both forms, and their codes.

use pillion_mcp_client::MessageStyle;

use super::*;

/// Returns a client whose errors have messages of this style.
fn styled(url: &str, transport: TransportKind, style: MessageStyle) -> McpClient {
    let mut config = config(url, transport);
    config.message_style = Some(style);
    McpClient::new(config)
}

#[tokio::test]
async fn e3_e4_a_json_rpc_error_has_both_messages() {
    let sse = "MCP Error (-32600): Invalid Request";
    let http = "MCP Error -32600: Invalid Request";
    for (dialect, transport, text) in [
        (Dialect::PostSse, TransportKind::PostSse, sse),
        (Dialect::GetSse, TransportKind::GetSse, sse),
        (Dialect::PlainHttp, TransportKind::Http, http),
        (Dialect::StreamableSse, TransportKind::StreamableHttp, http),
    ] {
        let server = FakeMcp::start_with(dialect, "tools/call", |_| {
            Reply::raw_error(&json!({
                "code": -32600, "message": "Invalid Request", "data": {"why": 1},
            }))
        });
        let error = roll_error(&server.url, transport).await;
        assert_eq!(error.to_string(), text);
        let rpc = error.rpc_error().unwrap();
        assert_eq!(rpc.code, -32600);
        assert_eq!(rpc.message, "Invalid Request");
        assert_eq!(rpc.data.as_ref().unwrap().get(), r#"{"why":1}"#);
        assert_eq!(error.class(), ErrorClass::InvalidInput);
    }
}

#[tokio::test]
async fn e3_absent_fields_of_an_error_have_defaults() {
    // A response whose result is null, without an error, is not a valid response.
    let no_response = "No valid JSON-RPC response found in SSE stream";
    for (error, expected) in [
        (json!({}), "MCP Error (-1): Unknown MCP error"),
        (json!("odd"), "MCP Error (-1): odd"),
        (json!(null), no_response),
        (json!({"code": "x"}), "MCP Error (-1): Unknown MCP error"),
    ] {
        let sent = error.clone();
        let server = FakeMcp::start_with(Dialect::PostSse, "tools/call", move |_| {
            Reply::raw_error(&sent)
        });
        let got = roll_error(&server.url, TransportKind::PostSse).await;
        assert_eq!(got.to_string(), expected);
    }
}

/// Returns the class of a JSON-RPC error.
async fn class_of(code: i64, message: &'static str) -> ErrorClass {
    let server = FakeMcp::start_with(Dialect::PlainHttp, "tools/call", move |_| {
        Reply::error(code, message)
    });
    roll_error(&server.url, TransportKind::Http).await.class()
}

#[tokio::test]
async fn e4_json_rpc_codes_have_reasons() {
    for (code, reason) in [
        (-32600, ErrorClass::InvalidInput),
        (-32602, ErrorClass::InvalidInput),
        (-32601, ErrorClass::NotFound),
        (-32603, ErrorClass::Internal),
        (7, ErrorClass::Internal),
    ] {
        assert_eq!(class_of(code, "no").await, reason, "{code}");
    }
}

#[tokio::test]
async fn b5_an_unknown_tool_is_not_found() {
    for message in [
        "Unknown tool: roll",
        "MCP error -32602: Tool roll not found",
    ] {
        let class = class_of(-32602, message).await;
        assert_eq!(class, ErrorClass::NotFound, "{message}");
    }
}

#[tokio::test]
async fn e3_e4_an_http_status_has_both_messages_and_the_client_recovers() {
    for (status, reason, code) in [
        (400, "Bad Request", ErrorClass::Unavailable),
        (401, "Unauthorized", ErrorClass::Denied),
        (403, "Forbidden", ErrorClass::Denied),
        (404, "Not Found", ErrorClass::Unavailable),
        (429, "Too Many Requests", ErrorClass::RateLimited),
        (500, "Internal Server Error", ErrorClass::Unavailable),
        (501, "Not Implemented", ErrorClass::Unavailable),
        (503, "Service Unavailable", ErrorClass::Unavailable),
    ] {
        for style in [MessageStyle::Sse, MessageStyle::Http] {
            let line = format!("{status} Whatever");
            let headers = [("Retry-After", "7"), ("Content-Type", "text/html")];
            let fault = Fault::response_with(&line, &headers, "<h1>No</h1>");
            let server = faulty_once(vec![fault]).await;
            let client = styled(&server.url, TransportKind::PostSse, style);
            let error = roll(&client).await.unwrap_err();
            let text = match style {
                MessageStyle::Sse => format!("MCP SSE request failed with HTTP {status}"),
                _ => format!("HTTP {status}: {reason}"),
            };
            assert_eq!(error.to_string(), text);
            assert_eq!(error.http_status(), Some(status));
            assert_eq!(error.class(), code, "{status}");
            assert_eq!(error.retry_after(), Some(Duration::from_secs(7)));
            roll(&client).await.unwrap();
        }
    }
}

#[tokio::test]
async fn e4_json_with_an_error_member_is_not_a_json_rpc_error() {
    for body in [
        r#"{"error": "boom"}"#,
        r#"{"error": {"code": 503, "message": "boom"}}"#,
        r#"{"jsonrpc": "2.0", "id": 1, "error": {"message": "boom"}}"#,
        r#"{"jsonrpc": "2.0", "id": 1, "error": "boom"}"#,
    ] {
        for (status, line) in [
            (500, "500 Internal Server Error"),
            (502, "502 Bad Gateway"),
            (503, "503 Service Unavailable"),
            (504, "504 Gateway Timeout"),
        ] {
            let server = faulty_once(vec![Fault::response(line, super::JSON, body)]).await;
            let error = roll_error(&server.url, TransportKind::PostSse).await;
            assert!(error.rpc_error().is_none(), "{body}");
            assert_eq!(error.http_status(), Some(status), "{body}");
            assert_eq!(error.class(), ErrorClass::Unavailable, "{body}");
            let text = format!("MCP SSE request failed with HTTP {status}");
            assert_eq!(error.to_string(), text, "{body}");
        }
    }
}

#[tokio::test]
async fn e4_a_json_rpc_error_with_an_http_status_is_a_json_rpc_error() {
    let body = Reply::error(-32000, "No dice").response("\"x\"");
    let fault = Fault::response("500 Internal Server Error", super::JSON, body);
    let server = faulty_once(vec![fault]).await;
    let error = roll_error(&server.url, TransportKind::PostSse).await;
    assert_eq!(error.to_string(), "MCP Error (-32000): No dice");
}

#[tokio::test]
async fn e3_e4_a_failed_request_has_both_messages() {
    for (style, name) in [(MessageStyle::Sse, "MCP SSE"), (MessageStyle::Http, "MCP")] {
        let server = faulty_once(vec![Fault::json(b"\xff")]).await;
        let client = styled(&server.url, TransportKind::PostSse, style);
        let error = roll(&client).await.unwrap_err();
        let text = format!("{name} request failed: the response is not valid UTF-8");
        assert_eq!(error.to_string(), text);
    }
}

#[tokio::test]
async fn e3_a_timeout_names_the_tool_the_server_and_the_total_time() {
    let server = FaultServer::start(|_| vec![Fault::Hang]).await;
    let client = client_within(&server.url, TransportKind::Auto, Duration::from_secs(1));
    let called = roll(&client).await.map(drop);
    let listed = client.list_tools().await.map(drop);
    for (error, operation) in [
        (called, "tool 'roll' of server 'test'"),
        (listed, "'tools/list' of server 'test'"),
        (client.connect().await, "connecting to server 'test'"),
    ] {
        let error = error.unwrap_err();
        let text = format!("MCP request failed: {operation} timed out after 1.0s");
        assert_eq!(error.to_string(), text);
    }
}

#[tokio::test]
async fn e4_the_legacy_message_names_the_transport() {
    for (dialect, transport, name) in [
        (Dialect::PostSse, TransportKind::Auto, "SSE"),
        (
            Dialect::StreamableJson,
            TransportKind::Auto,
            "Streamable HTTP",
        ),
        (Dialect::PlainHttp, TransportKind::Http, "HTTP"),
    ] {
        let server = FakeMcp::builder(dialect)
            .with_slow_calls(Duration::from_secs(60))
            .start();
        let client = styled(&server.url, transport, MessageStyle::Sse);
        client.connect().await.unwrap();
        let error = roll_within(&client, Duration::from_millis(300)).await;
        let text =
            format!("MCP {name} request failed: tool 'roll' of server 'test' timed out after 0.3s");
        assert_eq!(error.to_string(), text);
    }
    let fault = Fault::text("503 Busy", "no");
    let server = FaultServer::start(move |_| vec![fault.clone()]).await;
    let transport = TransportKind::StreamableHttp;
    let client = styled(&server.url, transport, MessageStyle::Sse);
    let error = roll(&client).await.unwrap_err();
    let text = "MCP Streamable HTTP request failed with HTTP 503";
    assert_eq!(error.to_string(), text);
}

#[tokio::test]
async fn e5_is_available_matches_the_state_of_the_server() {
    // A server that responds with a JSON-RPC error counts as available.
    for reply in [Reply::raw_result("{}"), Reply::error(-32601, "unknown")] {
        let server = FakeMcp::start_with(Dialect::PostSse, "ping", move |_| reply.clone());
        let client = client(&server.url, TransportKind::PostSse);
        assert!(client.is_available().await);
        client.disconnect().await;
        assert!(!client.is_available().await);
    }
    for fault in [
        Fault::text("500 No", "no"),
        Fault::text("401 No", "no"),
        Fault::response("200 OK", "text/html", "<h1>It works</h1>"),
        Fault::json(""),
    ] {
        let server = faulty_once(vec![fault.clone()]).await;
        let client = client(&server.url, TransportKind::PostSse);
        assert!(!client.is_available().await, "{fault:?}");
        assert!(client.is_available().await, "{fault:?}: afterwards");
    }
    // A read-only request is retried when its connection breaks.
    let server = faulty_once(vec![Fault::Close]).await;
    let post_sse = client(&server.url, TransportKind::PostSse);
    assert!(post_sse.is_available().await);
    assert_eq!(server.requests.count("ping"), 2);
    let server = faulty_once(vec![Fault::Hang]).await;
    let timeout = Duration::from_millis(200);
    let hanging = client_within(&server.url, TransportKind::PostSse, timeout);
    assert!(!hanging.is_available().await);
}

#[tokio::test]
async fn e3_a_call_is_never_repeated_after_a_broken_connection() {
    let calls = AtomicUsize::new(0);
    let server = FaultServer::start(move |request| match calls.fetch_add(1, Ordering::SeqCst) {
        // The second call uses a pooled connection that the server closes.
        1 => vec![Fault::Close],
        _ => good_response(request),
    })
    .await;
    let client = client(&server.url, TransportKind::PostSse);
    roll(&client).await.unwrap();
    roll(&client).await.unwrap_err();
    roll(&client).await.unwrap();
    assert_eq!(server.requests.count("tools/call"), 3);
}
