//! Responses with malformed bodies: a clear error, and the client works afterwards.

use pillion_sse::SseError;

use super::*;

const NO_RESPONSE: Failure =
    Failure::internal("No valid JSON-RPC response found in SSE stream", |kind| {
        matches!(kind, McpErrorKind::NoResponse)
    });

fn stream(body: impl AsRef<[u8]>) -> Vec<Fault> {
    vec![Fault::response("200 OK", EVENT_STREAM, body)]
}

fn event(data: &str) -> Vec<Fault> {
    stream(format!("data: {data}\n\n"))
}

fn json(body: impl AsRef<[u8]>) -> Vec<Fault> {
    vec![Fault::json(body)]
}

#[tokio::test]
async fn e3_an_http_response_without_json_rpc_response_is_an_error() {
    let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
    let deep_object = format!("{}1{}", "{\"a\":".repeat(10_000), "}".repeat(10_000));
    let untyped = Fault::response_with("202 Accepted", &[], "");
    let no_content = Fault::Send(b"HTTP/1.1 204 No Content\r\n\r\n".to_vec());
    for (case, faults) in [
        ("an empty stream", stream("")),
        ("comments only", stream(": a\n\n: b\n\n")),
        ("malformed JSON", event("{bad")),
        ("deep JSON", event(&deep)),
        ("deep objects", event(&deep_object)),
        ("unclosed deep JSON", event(&"[".repeat(10_000))),
        ("a foreign id", event(r#"{"id":"mcp_0","result":1}"#)),
        ("a number as id", event(r#"{"id":1,"result":1}"#)),
        ("an object as id", event(r#"{"id":{},"result":1}"#)),
        ("neither result nor error", event(r#"{"id":"mcp_0"}"#)),
        ("a notification", event(r#"{"method":"x"}"#)),
        ("half an event", stream("data: {\"id\":")),
        ("no event stream at all", stream("<html>\n\n</html>\n\n")),
        ("a foreign id as JSON", json(r#"{"id":"mcp_0","result":1}"#)),
        ("deep JSON as JSON", json(&deep)),
        ("an empty batch", json("[]")),
        ("an empty answer", json("")),
        ("white space", json(" \r\n ")),
        ("202", vec![Fault::response("202 Accepted", JSON, "")]),
        ("202 of no type", vec![untyped]),
        ("204", vec![no_content]),
    ] {
        fails_then_works(case, faults, &NO_RESPONSE).await;
    }
}

#[tokio::test]
async fn malformed_json_is_an_invalid_message() {
    let deep = "{\"a\":".repeat(10_000);
    for (case, body, reason) in [
        ("bad", "{bad", "key must be a string at line 1 column 2"),
        (
            "a number",
            "7",
            "invalid type: integer `7`, expected a JSON-RPC message at line 1 column 1",
        ),
        (
            "two values",
            "{}{}",
            "trailing characters at line 1 column 3",
        ),
        (
            "cut off",
            "{\"id\":\"mcp_",
            "EOF while parsing a string at line 1 column 11",
        ),
        (
            "unclosed and deep",
            &deep,
            "EOF while parsing a value at line 1 column 50000",
        ),
    ] {
        let text =
            format!("MCP SSE request failed: the response is not a JSON-RPC message: {reason}");
        let failure = Failure::internal(text.leak(), |kind| {
            matches!(kind, McpErrorKind::InvalidMessage(_))
        });
        fails_then_works(case, json(body), &failure).await;
    }
}

#[tokio::test]
async fn invalid_utf8_is_an_error() {
    let text = "MCP SSE request failed: the response is not valid UTF-8";
    let failure = Failure::internal(text, |kind| matches!(kind, McpErrorKind::InvalidUtf8));
    fails_then_works("JSON", json(b"{\"a\":\"\xff\"}"), &failure).await;
    let text = "MCP SSE request failed: the event stream is not valid UTF-8";
    let failure = Failure::internal(text, |kind| {
        matches!(kind, McpErrorKind::Sse(SseError::InvalidUtf8))
    });
    fails_then_works("stream", stream(b"data: \xc3\x28\n\n"), &failure).await;
}

#[tokio::test]
async fn another_content_type_is_an_error() {
    for (content_type, shown) in [
        ("text/html; charset=utf-8", "text/html"),
        ("image/png", "image/png"),
        ("", ""),
    ] {
        let text = format!("MCP SSE request failed: unexpected content type '{shown}'");
        let failure = Failure::internal(text.leak(), |kind| {
            matches!(kind, McpErrorKind::ContentType { .. })
        });
        let fault = Fault::response("200 OK", content_type, "<h1>It works</h1>");
        fails_then_works(content_type, vec![fault], &failure).await;
    }
}

#[tokio::test]
async fn a_huge_body_is_an_error_before_it_is_read() {
    let text = "MCP SSE request failed: the response is larger than 16777216 bytes";
    let failure = Failure::internal(text, |kind| matches!(kind, McpErrorKind::TooLarge { .. }));
    let announced = |length: &str| {
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: {JSON}\r\nContent-Length: {length}\r\n\r\n{{"
        );
        vec![Fault::Send(head.into_bytes()), Fault::Hang]
    };
    fails_then_works("1 TiB", announced("1099511627776"), &failure).await;
    let endless = vec![Fault::head(JSON), Fault::Forever(vec![b' '; 65_536])];
    fails_then_works("endless", endless, &failure).await;
    let endless = vec![Fault::head("text/html"), Fault::Forever(vec![b'x'; 65_536])];
    fails_then_works("endless text", endless, &failure).await;
}

#[tokio::test]
async fn a_configured_limit_holds() {
    let text = "MCP SSE request failed: the response is larger than 1000 bytes";
    let failure = Failure::internal(text, |kind| {
        matches!(kind, McpErrorKind::TooLarge { limit: 1000 })
    });
    let limit = |config: &mut ServerConfig| config.limits.max_response_bytes = 1000;
    fails_then_works_with("1001 bytes", json(vec![b' '; 1001]), &failure, limit).await;
    fails_then_works_with("1000 bytes", json(vec![b' '; 1000]), &NO_RESPONSE, limit).await;
}
