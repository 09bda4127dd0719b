//! Requests that are too large, from clients that send everything before they read.

use crate::prelude::*;

const MIB: usize = 1024 * 1024;

/// Sends the whole request, then reads the response.
fn respond(mut stream: UnixStream, request: &[u8]) -> String {
    stream.write_all(request).unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    response
}

#[test]
fn l1_a_client_that_sends_an_oversized_body_gets_the_error() {
    let daemon = Daemon::start();
    let body = vec![b'x'; 8 * MIB];
    let head = |length: &str| {
        let path = "/api/v1/tools/execute/calculator";
        format!("POST {path} HTTP/1.1\r\nhost: x\r\n{length}\r\n\r\n").into_bytes()
    };
    let announced = [
        head(&format!("content-length: {}", body.len())),
        body.clone(),
    ]
    .concat();
    let chunked = [
        head("transfer-encoding: chunked"),
        format!("{:x}\r\n", body.len()).into_bytes(),
        body,
        b"\r\n0\r\n\r\n".to_vec(),
    ];
    for request in [announced, chunked.concat()] {
        let response = respond(daemon.connect(), &request);
        assert_starts_with!(response, "HTTP/1.1 413");
        assert_contains!(response, "\"error_code\":\"invalid_input\"");
    }
}

#[test]
fn l1_an_oversized_head_is_rejected_however_it_is_sent() {
    let daemon = Daemon::with_config("[http]\nmax_header_bytes = 8192\n");
    for length in [8_300, 12_000, 20_000, 200_000] {
        let head = format!(
            "GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\nx-long: {}\r\n\r\n",
            "y".repeat(length)
        );
        let at_once = respond(daemon.connect(), head.as_bytes());
        assert!(at_once.starts_with("HTTP/1.1 431"), "{length}: {at_once}");
        let mut stream = daemon.connect();
        let (first, rest) = head.as_bytes().split_at(4_000);
        stream.write_all(first).unwrap();
        std::thread::sleep(Duration::from_millis(50));
        let in_pieces = respond(stream, rest);
        assert!(
            in_pieces.starts_with("HTTP/1.1 431"),
            "{length}: {in_pieces}"
        );
    }
    let fits = format!(
        "GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\nx-long: {}\r\n\r\n",
        "y".repeat(8_000)
    );
    assert_starts_with!(respond(daemon.connect(), fits.as_bytes()), "HTTP/1.1 200");
}

#[test]
fn l1_a_uri_that_is_too_long_is_rejected() {
    let daemon = Daemon::with_config("[http]\nmax_header_bytes = 200000\n");
    let ask = |length: usize| {
        let path = "x".repeat(length);
        let head = format!("GET /{path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
        respond(daemon.connect(), head.as_bytes())
    };
    assert_starts_with!(ask(70_000), "HTTP/1.1 414");
    assert_starts_with!(ask(60_000), "HTTP/1.1 404");
}
