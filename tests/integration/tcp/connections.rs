//! Connections without a token, and tokens that are revoked while a connection is open.

use super::*;

const TOOLS: &str = "GET /api/v1/tools/";

fn ask(stream: &mut TcpStream, token: &str, request: &str) {
    let text = format!(
        "{request} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\ncontent-length: 0\r\n\r\n"
    );
    stream.write_all(text.as_bytes()).unwrap();
}

/// Reads the head of a response in lower case, with the part of the body that has arrived.
fn head(stream: &mut TcpStream) -> String {
    let mut bytes = [0; 1024];
    let count = stream.read(&mut bytes).unwrap();
    String::from_utf8_lossy(&bytes[..count]).to_lowercase()
}

/// Returns whether the peer has closed the connection.
fn is_closed(stream: &mut TcpStream) -> bool {
    stream
        .set_read_timeout(Some(Duration::from_millis(20)))
        .unwrap();
    match stream.read(&mut [0; 64]) {
        Ok(count) => count == 0,
        Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
    }
}

#[test]
fn c2_a_response_before_the_body_has_arrived_announces_the_close() {
    let server = Server::start("");
    let long = "u".repeat(300);
    // Each request is rejected because of its head.
    for (target, header, status) in [
        (
            "/api/v1/tools/execute/calculator",
            format!("x-pillion-user: {long}"),
            400,
        ),
        (
            "/api/v1/tools/batch-execute",
            format!("x-pillion-user: {long}"),
            400,
        ),
        (
            "/api/v1/tools/execute/calculator",
            "content-length: 99999999".to_owned(),
            413,
        ),
        ("/api/v1/nothing", "accept: */*".to_owned(), 404),
        ("/api/v1/servers", "accept: */*".to_owned(), 403),
    ] {
        let length = if header.starts_with("content-length") {
            ""
        } else {
            "content-length: 20\r\n"
        };
        let request = format!(
            "POST {target} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {RUNNER}\r\n\
             content-type: application/json\r\n{length}{header}\r\n\r\n"
        );
        let mut stream = server.connect();
        stream.write_all(request.as_bytes()).unwrap();
        let response = head(&mut stream);
        assert_starts_with!(response, &format!("http/1.1 {status}"));
        assert!(
            response.contains("connection: close"),
            "{target} {header:.30}: {response}"
        );
    }
    // After a request that was read, the connection is kept.
    let mut connection = server.connect();
    for _ in 0..2 {
        ask(&mut connection, RUNNER, TOOLS);
        assert_lacks!(head(&mut connection), "connection: close");
    }
}

#[test]
fn l3_connections_without_a_token_do_not_use_up_the_connections_of_tokens() {
    let server = Server::start(
        "max_connections = 2\nauthentication_timeout_ms = 3000\n[http]\nidle_timeout_ms = 60000",
    );
    let mut connection = server.connect();
    ask(&mut connection, READER, TOOLS);
    assert_starts_with!(head(&mut connection), "http/1.1 200");
    let mut idle: Vec<_> = (0..12).map(|_| server.connect()).collect();
    // A connection that sends its head slowly counts as idle.
    for stream in &mut idle[6..] {
        drop(stream.write_all(b"GET / HTTP/1.1\r\nhost: "));
    }
    assert_eq!(server.authorized(READER, TOOLS, "").0, 200);
    eventually("the oldest are closed at once", || {
        idle[..8].iter_mut().all(is_closed)
    });
    eventually("the others when their time is over", || {
        idle.iter_mut().all(is_closed)
    });
    // A connection that has authenticated stays open.
    connection
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    let mut rest = vec![0; 1 << 20];
    connection.set_nonblocking(true).unwrap();
    while connection.read(&mut rest).is_ok_and(|count| count > 0) {}
    connection.set_nonblocking(false).unwrap();
    ask(&mut connection, READER, "GET /healthz");
    let response = head(&mut connection);
    assert_starts_with!(response, "http/1.1 200");
    assert_lacks!(response, "connection: close");
}

#[test]
fn l3_a_refusal_ends_its_connection() {
    let server = Server::start("");
    for (token, request, status) in [
        ("wrong-wrong-wrong-wrong", TOOLS, 401),
        ("wrong-wrong-wrong-wrong", "GET /healthz", 401),
        (READER, "POST /api/v1/tools/execute/calculator", 403),
    ] {
        let mut stream = server.connect();
        ask(&mut stream, token, request);
        let response = head(&mut stream);
        assert_starts_with!(response, &format!("http/1.1 {status}"));
        assert_contains!(response, "connection: close");
        eventually("it is closed", || is_closed(&mut stream));
    }
    // A connection with a valid token stays open, even if the scope does not allow the request.
    let mut stream = server.connect();
    ask(&mut stream, READER, "GET /healthz");
    assert_lacks!(head(&mut stream), "connection: close");
    ask(&mut stream, READER, "POST /api/v1/tools/execute/calculator");
    let response = head(&mut stream);
    assert_starts_with!(response, "http/1.1 403");
    assert_lacks!(response, "connection: close");
}

#[test]
fn l3_connections_with_tokens_beyond_the_limit_get_an_error() {
    let server = Server::start("max_connections = 1\nauthentication_timeout_ms = 500");
    let mut first = server.connect();
    ask(&mut first, RUNNER, "GET /healthz");
    assert_starts_with!(head(&mut first), "http/1.1 200");
    let (status, _, body) = server.authorized(RUNNER, TOOLS, "");
    assert_eq!(status, 503, "{body}");
    assert_contains!(body, "tcp.max_connections");
    drop(first);
    eventually("there is a place again", || {
        server.authorized(RUNNER, TOOLS, "").0 == 200
    });
}

#[test]
fn l3_a_token_leaves_connections_for_other_tokens() {
    let server = Server::start("max_connections = 16\nauthentication_timeout_ms = 2000");
    let streams: Vec<TcpStream> = (0..16)
        .map(|_| {
            let mut stream = server.connect();
            ask(&mut stream, RUNNER, "GET /api/v1/events");
            stream
        })
        .collect();
    // The first token cannot use two of the sixteen connections.
    for _ in &streams {
        let mut other = server.connect();
        ask(&mut other, READER, "GET /healthz");
        assert_starts_with!(head(&mut other), "http/1.1 200");
    }
}

pub(super) fn tokens(daemon: &Daemon, arguments: &[&str]) -> String {
    success(&crate::cli::tokens::run(daemon, arguments))
        .trim()
        .to_owned()
}

#[test]
fn l3_the_streams_of_a_token_end_when_it_is_revoked() {
    let address = free_address();
    let toml =
        format!("[tcp]\nlisten = \"{address}\"\ntokens_store = true\n[tabletop]\nenabled = true\n");
    let daemon = Daemon::with_config(&toml);
    let (bad, good) = (
        tokens(&daemon, &["create", "bad", "--scope", "execute"]),
        tokens(&daemon, &["create", "good", "--scope", "execute"]),
    );
    let (listen, message) = stateless(
        "subscriptions/listen",
        json!({"notifications": {"toolsListChanged": true}}),
        json!({}),
    );
    let open = |token: &str, request: &str, more: &str, body: &str| {
        let mut stream = TcpStream::connect(address).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(60)))
            .unwrap();
        let length = body.len();
        let text = format!(
            "{request} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\n\
             content-length: {length}\r\n{more}\r\n{body}"
        );
        stream.write_all(text.as_bytes()).unwrap();
        let mut lines = BufReader::new(stream);
        let mut status = String::new();
        lines.read_line(&mut status).unwrap();
        assert!(status.contains("200"), "{request}: {status}");
        lines
    };
    let events = |token: &str| open(token, "GET /api/v1/events", ACCEPT, "");
    let hello = hello("2025-11-25", json!({}));
    let mut opened = open(&bad, "POST /mcp", ACCEPT, &hello.to_string());
    let session = loop {
        let mut line = String::new();
        assert!(opened.read_line(&mut line).unwrap() > 2, "no session");
        if let Some(id) = line.to_lowercase().strip_prefix("mcp-session-id: ") {
            break format!("{ACCEPT}mcp-session-id: {}\r\n", id.trim());
        }
    };
    // All kinds of streams that a client listens to. (The stream of an answer ends with the answer.)
    let mut ending = [
        events(&bad),
        open(&bad, "POST /mcp", &listen, &message.to_string()),
        open(&bad, "GET /mcp", &session, ""),
        open(&bad, "GET /api/v1/streams/orchestrator", ACCEPT, ""),
        open(&bad, "GET /api/v1/streams/app", ACCEPT, ""),
    ];
    let mut lasting = events(&good);
    assert_contains!(tokens(&daemon, &["revoke", "bad"]), "revoked");
    for stream in &mut ending {
        // Reads to the end of the response, which leaves the connection open.
        let mut line = String::new();
        while stream.read_line(&mut line).unwrap() > 0 && !line.ends_with("\r\n0\r\n") {}
    }
    // The other stream has received its heartbeat by then, and continues.
    let mut line = String::new();
    while !line.contains("\n: \n") {
        assert!(lasting.read_line(&mut line).unwrap() > 0, "{line}");
    }
    let expected = "its access token was revoked or changed, has expired, or cannot be checked";
    assert_contains!(daemon.log(), expected);
}
