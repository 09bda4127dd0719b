use crate::http::Reply;
use crate::prelude::*;

const EXECUTE: &str = "/api/v1/tools/execute/both";

/// Asserts that the error is JSON with this status and code, and that the sidecar still works.
fn assert_rejected(sidecar: &Sidecar, reply: &Reply, status: u16, code: &str) -> String {
    assert_eq!(reply.status, status, "{reply:?}");
    let body = reply.json();
    assert_eq!(body["success"], false);
    assert_eq!(body["error_code"], code);
    assert_eq!(sidecar.client().fetch(route::HEALTH).unwrap().status, "ok");
    body["error"].text().to_owned()
}

#[test]
fn malformed_json() {
    let sidecar = Sidecar::start();
    for body in [
        "{",
        "{\"a\":}",
        "nonsense",
        "{} {}",
        "\u{feff}{}",
        "{'a': 1}",
        "{\"a\": 1e999}",
    ] {
        let reply = sidecar.post(EXECUTE, body);
        let error = assert_rejected(&sidecar, &reply, 400, "invalid_input");
        assert!(error.starts_with("Malformed JSON: "), "{body}: {error}");
        let reply = sidecar.post("/api/v1/tools/batch-execute", body);
        assert_rejected(&sidecar, &reply, 400, "invalid_input");
    }
}

#[test]
fn json_that_is_not_an_object() {
    let sidecar = Sidecar::start();
    for body in ["1", "\"{}\"", "[1]", "true"] {
        let reply = sidecar.post(EXECUTE, body);
        let error = assert_rejected(&sidecar, &reply, 400, "invalid_input");
        assert!(error.contains("must be a JSON object"), "{body}: {error}");
    }
}

#[test]
fn a_bad_parameter_is_named() {
    let daemon = Daemon::start();
    let limit = "'limit' must be a number from 1 to 1000";
    let milliseconds = "'wait_ms' must be a number of milliseconds, 0 or more";
    for (target, expected) in [
        (
            "approvals?status=lost",
            "'status' must be one of pending, approved, denied, expired",
        ),
        ("approvals?limit=0", limit),
        ("tool-calls?limit=abc", limit),
        (
            "tool-calls?limit=1&limit=2",
            "The query is malformed: duplicate field `limit`",
        ),
        ("tools?wait_ms=soon", milliseconds),
        ("tools?wait_ms=-1", milliseconds),
        ("tools?wait_ms=9223372036854775808", milliseconds),
        ("pins?changed=perhaps", "'changed' must be true or false"),
        (
            "events?types=x",
            "'types' must be a comma-separated list of call.pending, call.started, ",
        ),
        (
            "tool-calls?from=now",
            "'from' must be a time such as 2026-11-21T18:00:00Z",
        ),
        (
            "tool-calls?status=x",
            "'status' must be one of pending, running, ",
        ),
    ] {
        let rejected = daemon.get(&format!("/api/v1/{target}"));
        assert_eq!(rejected.status, 400, "{target}");
        let problem = rejected.json();
        assert_eq!(problem["error_code"], "invalid_input", "{target}");
        let detail = problem["detail"].text();
        assert!(detail.contains(expected), "{target}: {detail}");
    }
}

#[test]
fn json_nested_10_000_deep() {
    let sidecar = Sidecar::start();
    let depth = 10_000;
    let arrays = format!("{{\"a\": {}{}}}", "[".repeat(depth), "]".repeat(depth));
    let objects = format!("{}1{}", "{\"a\":".repeat(depth), "}".repeat(depth));
    let batch =
        format!("{{\"calls\": [{{\"id\": \"1\", \"name\": \"both\", \"arguments\": {arrays}}}]}}");
    for (target, body) in [
        (EXECUTE, &arrays),
        (EXECUTE, &objects),
        ("/api/v1/tools/batch-execute", &batch),
    ] {
        let reply = sidecar.post(target, body);
        let error = assert_rejected(&sidecar, &reply, 400, "invalid_input");
        assert_contains!(error, "recursion limit");
    }
}

#[test]
fn invalid_utf8() {
    let sidecar = Sidecar::start();
    let reply = sidecar.post(EXECUTE, b"{\"a\": \"\xff\xfe\"}");
    assert_rejected(&sidecar, &reply, 400, "invalid_input");
    let reply = sidecar.post("/api/v1/tools/execute/a%ff", "{}");
    let error = assert_rejected(&sidecar, &reply, 400, "invalid_input");
    assert_contains!(error, "tool's name");
    let mut request = b"POST /api/v1/tools/execute/both HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 2\r\nx-pillion-user: ".to_vec();
    request.extend_from_slice(b"\xff\xfe\r\n\r\n{}");
    let reply = sidecar.exchange(&request);
    let error = assert_rejected(&sidecar, &reply, 400, "invalid_input");
    assert_contains!(error, "x-pillion-user");
}

#[test]
fn a_body_over_the_limit() {
    let sidecar = Sidecar::with_config("[http]\nmax_body_bytes = 1000");
    let fits = format!("{{\"a\": \"{}\"}}", "x".repeat(900));
    assert_eq!(sidecar.post(EXECUTE, fits).status, 200);

    let long = format!("{{\"a\": \"{}\"}}", "x".repeat(5_000_000));
    let reply = sidecar.post(EXECUTE, &long);
    let error = assert_rejected(&sidecar, &reply, 413, "invalid_input");
    assert_eq!(error, "The request body is longer than 1000 bytes");

    // Without a length, the limit holds while the body arrives.
    let mut chunked = format!(
        "POST {EXECUTE} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n"
    );
    for _ in 0..100 {
        chunked.push_str(&format!("64\r\n{}\r\n", "x".repeat(100)));
    }
    chunked.push_str("0\r\n\r\n");
    let reply = sidecar.exchange(chunked.as_bytes());
    assert_rejected(&sidecar, &reply, 413, "invalid_input");

    // The client reads the error although it could not send everything.
    let client = sidecar.client();
    let request = client.request(route::EXECUTE_TOOL, ["both"]);
    let error = request.send_bytes(long.as_bytes()).unwrap_err();
    assert_matches!(
        error,
        pillion_client::ClientError::Status { status: 413, .. }
    );
}

#[test]
fn a_body_that_never_arrives() {
    let sidecar = Sidecar::with_config("[http]\nbody_timeout_ms = 200");
    let request = format!("POST {EXECUTE} HTTP/1.1\r\nhost: x\r\ncontent-length: 10\r\n\r\n{{");
    let started = Instant::now();
    let reply = sidecar.exchange(request.as_bytes());
    let error = assert_rejected(&sidecar, &reply, 408, "timeout");
    assert_eq!(error, "The body did not arrive within 0.2s");
    assert!(started.elapsed() < Duration::from_secs(10));
}

#[test]
fn a_chunk_that_breaks_off() {
    let sidecar = Sidecar::start();
    let request =
        format!("POST {EXECUTE} HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n");
    let reply = sidecar.exchange(request.as_bytes());
    assert_rejected(&sidecar, &reply, 400, "invalid_input");
}

#[test]
fn a_silent_client_is_disconnected() {
    let sidecar = Sidecar::with_config("[http]\nidle_timeout_ms = 200");
    for start in [&b""[..], b"GET /healthz HTTP/1.1\r\nhost:"] {
        let mut stream = sidecar.connect();
        stream.write_all(start).unwrap();
        let mut response = Vec::new();
        stream.read_to_end(&mut response).unwrap();
        assert_lacks!(String::from_utf8_lossy(&response), " 200 ");
    }
    sidecar.client().fetch(route::HEALTH).unwrap();
}

#[test]
fn a_request_that_is_not_http() {
    let sidecar = Sidecar::start();
    for bytes in [
        &b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc"[..],
        b"hello\r\n\r\n",
        &[0; 4096],
    ] {
        let mut stream = sidecar.connect();
        stream.write_all(bytes).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut response = Vec::new();
        drop(stream.read_to_end(&mut response));
        assert!(
            response.is_empty() || response.starts_with(b"HTTP/1.1 400"),
            "{response:?}"
        );
    }
    sidecar.client().fetch(route::HEALTH).unwrap();
}

#[test]
fn headers_that_are_too_long() {
    let sidecar = Sidecar::start();
    let user = format!("x-pillion-user: {}\r\n", "u".repeat(257));
    let reply = sidecar.post_with(EXECUTE, &user, b"{}");
    let error = assert_rejected(&sidecar, &reply, 400, "invalid_input");
    assert_contains!(error, "at most 256 bytes");
    let endless = format!("x: {}\r\n", "u".repeat(2_000_000));
    let reply = sidecar.post_with(EXECUTE, &endless, b"{}");
    assert_eq!(reply.status, 431);
    sidecar.client().fetch(route::HEALTH).unwrap();
}

#[test]
fn connections_beyond_the_limit_wait() {
    let sidecar = Sidecar::with_config("[http]\nmax_connections = 2\nidle_timeout_ms = 500");
    let _idle: Vec<_> = (0..2)
        .map(|_| UnixStream::connect(&sidecar.socket).unwrap())
        .collect();
    assert_eq!(sidecar.client().fetch(route::HEALTH).unwrap().status, "ok");
}

#[test]
fn a_lone_surrogate_is_named_as_such() {
    let sidecar = Sidecar::start();
    for escape in [r"\ud83d", r"\ude00", r"\ud83dx", r"\ud83d\u0041"] {
        let body = format!("{{\"expression\": \"{escape}\"}}");
        let path = "/api/v1/tools/execute/calculator";
        let rejected = sidecar.post(path, body.as_bytes()).json();
        let error = rejected["error"].text();
        assert!(error.contains("lone surrogate"), "{escape}: {error}");

        let session = Session::open(&sidecar.socket, "2025-11-25", json!({}));
        for params in [
            format!(r#"{{"name": "calculator", "arguments": {body}}}"#),
            format!(r#"{{"name": "{escape}", "arguments": {{}}}}"#),
        ] {
            let message = format!(
                r#"{{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {params}}}"#
            );
            let headers = &session.headers;
            let rejected = sidecar
                .post_with("/mcp", headers, message.as_bytes())
                .json();
            let error = rejected["error"]["message"].text();
            assert!(error.contains("lone surrogate"), "{message}: {error}");
        }
    }
}
