//! Other requests that may reach the redirect port before the browser.

use pillion_testkit::OAuthRules;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::*;

/// Sends these bytes. Returns the status line of the response, or an empty string.
async fn send(port: u16, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    let mut response = Vec::new();
    // A client that sends too much is disconnected.
    let _ = stream.write_all(bytes).await;
    let read = tokio::time::timeout(Duration::from_secs(20), stream.read_to_end(&mut response));
    let _ = read.await.expect("no request is left without an end");
    let response = String::from_utf8(response).unwrap();
    response.lines().next().unwrap_or_default().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn unrelated_requests_do_not_end_the_wait() {
    let server = FakeOAuth::start(OAuthRules::default());
    let running = Running::start(&["call", &server.url, "roll", "--oauth"], &[]);
    let back = way_back(running.page()).await;
    let port = back.port().unwrap();
    for (stray, status) in [
        (&b"GET /favicon.ico HTTP/1.1\r\nHost: a\r\n\r\n"[..], "404"),
        (b"GET / HTTP/1.1\r\n\r\n", "404"),
        (b"GET /callback HTTP/1.1\r\n\r\n", "400"),
        (b"GET /callback?a=b HTTP/1.1\r\n\r\n", "400"),
        (b"POST /callback?code=c&state=s HTTP/1.1\r\n\r\n", "405"),
        (b"\x16\x03\x01\x02\x00\r\n\r\n", "400"),
        (b"\r\n\r\n", "400"),
    ] {
        assert_starts_with!(send(port, stray).await, &format!("HTTP/1.1 {status} "));
    }
    let huge = vec![b'a'; 8 << 20];
    send(port, &huge).await;
    // Slow connections stay open meanwhile.
    let mut slow = Vec::new();
    for _ in 0..10 {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        stream.write_all(b"GET /callback?co").await.unwrap();
        slow.push(stream);
    }
    assert_eq!(open(back).await.status(), 200);
    let output = running.output();
    assert_eq!(stdout(&output), "15\n", "{}", stderr(&output));
}

#[tokio::test(flavor = "multi_thread")]
async fn silent_connections_are_closed() {
    let server = FakeOAuth::start(OAuthRules::default());
    let running = Running::start(&["call", &server.url, "roll", "--oauth"], &[]);
    let back = way_back(running.page()).await;
    let mut silent = Vec::new();
    for _ in 0..80 {
        let port = back.port().unwrap();
        silent.push(TcpStream::connect(("127.0.0.1", port)).await.unwrap());
    }
    assert_eq!(open(back).await.status(), 200);
    let output = running.output();
    assert_eq!(stdout(&output), "15\n", "{}", stderr(&output));
}
