//! Web pages of other origins: the headers that a browser requires to let a page use the API
//! (CORS).

use super::*;

const PAGE: &str = "https://page.example";

/// Returns the value of a response header.
fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    let mut lines = head.lines();
    lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
}

/// Returns the request line and headers of a preflight request.
fn preflight(origin: &str, method: &str, headers: &str) -> String {
    format!(
        "host: localhost\r\norigin: {origin}\r\naccess-control-request-method: {method}\r\n\
         access-control-request-headers: {headers}\r\n"
    )
}

#[test]
fn l3_a_preflight_of_a_configured_origin_is_answered_without_a_token() {
    let server = Server::start("allowed_origins = [\"https://page.example\"]");
    for (path, method, requested) in [
        (
            "/mcp",
            "POST",
            "authorization,content-type,mcp-protocol-version,mcp-session-id",
        ),
        ("/mcp/", "DELETE", "authorization, mcp-session-id"),
        ("/mcp", "GET", "last-event-id,Mcp-Method,mcp-param-region"),
        ("/api/v1/tools/", "GET", "authorization,if-none-match"),
        (
            "/api/v1/tools/execute/calculator",
            "POST",
            "idempotency-key,x-pillion-user,x-pillion-channel",
        ),
        ("/api/v1/servers/7", "PATCH", "authorization"),
        ("/api/v1/providers/a/key", "PUT", "authorization"),
        (
            "/v1/chat/completions",
            "POST",
            "authorization,x-stainless-os,openai-organization",
        ),
        (
            "/v1/messages",
            "POST",
            "x-api-key,anthropic-version,anthropic-dangerous-direct-browser-access",
        ),
        ("/v1/models", "GET", ""),
    ] {
        let headers = preflight(PAGE, method, requested);
        let (status, head, body) = server.send(&format!("OPTIONS {path}"), &headers, "");
        assert!(matches!(status, 200 | 204), "{path}: {head} {body}");
        assert_eq!(header(&head, "access-control-allow-origin"), Some(PAGE));
        let list = |name: &str| {
            let list = header(&head, name).unwrap_or_default().split(',');
            list.map(|item| item.trim().to_owned()).collect::<Vec<_>>()
        };
        let methods = list("access-control-allow-methods");
        assert!(methods.contains(&method.to_lowercase()), "{head}");
        let allowed = list("access-control-allow-headers");
        let always = "authorization,mcp-session-id,idempotency-key,x-pillion-user,last-event-id";
        for name in requested.split(',').chain(always.split(',')) {
            let name = name.trim().to_lowercase();
            assert!(name.is_empty() || allowed.contains(&name), "{name}: {head}");
        }
        assert!(list("vary").contains(&"origin".to_owned()), "{head}");
        assert_lacks!(head, "allow-credentials", '*');
    }
    let headers = preflight(PAGE, "POST", "*, authorization, bad name, x-mine");
    let (_, head, _) = server.send("OPTIONS /mcp", &headers, "");
    let allowed = header(&head, "access-control-allow-headers").unwrap();
    assert_ends_with!(allowed, "x-mine");
    assert_lacks!(allowed, '*', "bad");
}

#[test]
fn l3_a_page_of_a_configured_origin_reads_every_response() {
    let server = Server::start("allowed_origins = [\"https://page.example\"]");
    let initialize = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {},
        "clientInfo": {"name": "page", "version": "1"}}});
    let initialize = initialize.to_string();
    let run = "POST /api/v1/tools/execute/calculator";
    for (request, token, body, expected) in [
        ("POST /mcp", Some(RUNNER), initialize.as_str(), 200),
        ("POST /mcp", None, &initialize, 401),
        ("POST /mcp", Some(RUNNER), "{", 400),
        ("GET /mcp", Some(RUNNER), "", 400),
        ("PUT /mcp", Some(RUNNER), "", 405),
        ("GET /api/v1/tools/", Some(READER), "", 200),
        ("GET /api/v1/nothing", Some(READER), "", 404),
        (run, Some(READER), "{}", 403),
        ("POST /v1/chat/completions", None, "{}", 401),
        ("POST /v1/messages", Some("wrong-wrong-wrong"), "{}", 401),
    ] {
        let authorization = |token| format!("authorization: Bearer {token}\r\n");
        let token = token.map(authorization).unwrap_or_default();
        let headers = format!("host: localhost\r\norigin: {PAGE}\r\n{ACCEPT}{token}");
        let (status, head, body) = server.send(request, &headers, body);
        assert_eq!(status, expected, "{request}: {head} {body}");
        assert_eq!(header(&head, "access-control-allow-origin"), Some(PAGE));
        assert_contains!(head, "vary: origin");
        let exposed = header(&head, "access-control-expose-headers").unwrap_or_default();
        assert_contains!(
            exposed,
            "mcp-session-id",
            "x-request-id",
            "retry-after",
            "x-pillion-chat"
        );
        assert_lacks!(head, "allow-credentials");
    }
}

#[test]
fn l3_other_pages_and_programs_get_no_headers_of_cors() {
    let server = Server::start("allowed_origins = [\"https://page.example\"]");
    let token = format!("authorization: Bearer {RUNNER}\r\n");
    for origin in ["https://evil.example", "null", "http://page.example"] {
        let headers = preflight(origin, "POST", "authorization");
        let (status, head, _) = server.send("OPTIONS /mcp", &headers, "");
        assert_eq!(status, 403, "{origin}: {head}");
        assert_lacks!(head, "access-control");
        let headers = format!("host: localhost\r\norigin: {origin}\r\n{token}");
        let (status, head, _) = server.send("GET /api/v1/tools/", &headers, "");
        assert_eq!(status, 403, "{origin}");
        assert_lacks!(head, "access-control");
    }
    // The page of another site has pointed its own host name at this machine (DNS rebinding).
    let headers = preflight(PAGE, "POST", "authorization").replace("localhost", "evil.example");
    let (status, head, _) = server.send("OPTIONS /mcp", &headers, "");
    assert!(status == 403 && !head.contains("access-control"), "{head}");
    for (request, token, expected) in [
        ("OPTIONS /mcp", "", 401),
        ("GET /api/v1/tools/", &token, 200),
    ] {
        let headers = format!("host: localhost\r\n{token}");
        let (status, head, _) = server.send(request, &headers, "");
        assert_eq!(status, expected, "{head}");
        assert_lacks!(head, "access-control");
    }
    // Without the setting, no origin is allowed.
    let server = Server::start("");
    let headers = preflight(PAGE, "POST", "authorization");
    let (status, head, _) = server.send("OPTIONS /mcp", &headers, "");
    assert!(status == 403 && !head.contains("access-control"), "{head}");
}
