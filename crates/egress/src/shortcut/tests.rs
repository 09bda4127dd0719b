mod idle_limits;

use std::future::poll_fn;
use std::sync::atomic::AtomicUsize;
use std::task::Poll;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;

const PLAIN: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}";
const CHUNKED: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\
     transfer-encoding: chunked\r\n\r\n9\r\ndata: 1\n\n\r\n0\r\n\r\n";
const EMPTY: &str = "HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n";

/// A server that sends one of these responses for each request of a connection, and closes the
/// connection after the last response.
struct Server {
    url: Url,
    connections: Arc<AtomicUsize>,
}

impl Server {
    async fn with(responses: &'static [&'static str]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let connections = Arc::new(AtomicUsize::new(0));
        let seen = Arc::clone(&connections);
        tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                seen.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(async move {
                    for response in responses {
                        read_request(&mut stream).await;
                        stream.write_all(response.as_bytes()).await.unwrap();
                    }
                });
            }
        });
        let url = format!("http://127.0.0.1:{port}/mcp?a=1").parse().unwrap();
        Self { url, connections }
    }

    fn shortcut(&self) -> Arc<DirectClient> {
        client_for(&self.url)
    }

    fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

/// Reads one request with the body `{}`.
async fn read_request(stream: &mut TcpStream) -> String {
    let mut read = Vec::new();
    while !read.ends_with(b"\r\n\r\n{}") {
        let mut more = [0; 1024];
        let count = stream.read(&mut more).await.unwrap();
        if count == 0 {
            break;
        }
        read.extend_from_slice(&more[..count]);
    }
    String::from_utf8(read).unwrap()
}

fn client_for(url: &Url) -> Arc<DirectClient> {
    DirectClient::for_url(url, &EgressPolicy::default()).unwrap()
}

/// Returns a client for a server on this machine.
fn client_for_port(port: u16) -> Arc<DirectClient> {
    client_for(&url(&format!("http://127.0.0.1:{port}/")))
}

async fn post(shortcut: &Arc<DirectClient>) -> SendOutcome {
    post_over(shortcut, ConnectionChoice::Any).await
}

async fn post_over(shortcut: &Arc<DirectClient>, choice: ConnectionChoice) -> SendOutcome {
    let body = Bytes::from("{}");
    shortcut.post(&HeaderMap::new(), body, choice).await
}

fn response(sent: SendOutcome) -> reqwest::Response {
    match sent {
        SendOutcome::Response(response) => response,
        SendOutcome::Broken(error) => panic!("{error:?}"),
        _ => panic!("no response"),
    }
}

/// Sends a POST request and reads the complete response.
async fn text(shortcut: &Arc<DirectClient>) -> String {
    response(post(shortcut).await).text().await.unwrap()
}

/// Returns the number of idle connections of all runtimes.
fn idle_connections(shortcut: &DirectClient) -> usize {
    let idle_connections = shortcut.idle_connections.lock();
    let counts = idle_connections.connections_by_runtime.iter();
    let lengths = counts.map(|connections| connections.idle_connections.len());
    lengths.sum()
}

fn url(text: &str) -> Url {
    text.parse().unwrap()
}

fn runtime() -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().build().unwrap()
}

#[test]
fn the_shortcut_is_only_for_allowed_loopback_addresses() {
    let open = EgressPolicy::default();
    for (address, has_shortcut) in [
        ("http://localhost:1/", true),
        ("http://127.0.0.1/", true),
        ("http://[::1]:9/", true),
        ("https://localhost/", false),
        ("http://mcp.example/", false),
        ("http://10.0.0.1/", false),
        ("http://user:word@localhost/", false),
    ] {
        let client = DirectClient::for_url(&url(address), &open);
        assert_eq!(client.is_some(), has_shortcut, "{address}");
    }
    let closed = EgressPolicy {
        allow_loopback: false,
        ..EgressPolicy::default()
    };
    assert!(DirectClient::for_url(&url("http://127.0.0.1/"), &closed).is_none());
}

#[tokio::test]
async fn the_policy_applies_to_local_names_when_they_are_resolved() {
    let server = Server::with(&[PLAIN]).await;
    let port = server.url.port().unwrap();
    let by_name = url(&format!("http://localhost:{port}/mcp"));
    assert_eq!(text(&client_for(&by_name)).await, "{}");
    let policy = EgressPolicy {
        allow_loopback: false,
        ..EgressPolicy::default()
    };
    let forbidden = DirectClient::for_url(&by_name, &policy).unwrap();
    assert!(matches!(post(&forbidden).await, SendOutcome::NotSent));
    assert_eq!(server.connections(), 1);
}

/// Responds to one request, and returns the request in lower case.
async fn serve_one(listener: &TcpListener) -> String {
    let (mut stream, _) = listener.accept().await.unwrap();
    let request = read_request(&mut stream).await;
    stream.write_all(PLAIN.as_bytes()).await.unwrap();
    request.to_lowercase()
}

#[tokio::test]
async fn the_request_has_its_path_and_the_usual_headers() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let shortcut = client_for(&url(&format!("http://127.0.0.1:{port}/a/b?c=d%20e")));
    let (request, body) = tokio::join!(serve_one(&listener), text(&shortcut));
    assert_eq!(body, "{}");
    let request_line = "post /a/b?c=d%20e http/1.1\r\n";
    assert!(request.starts_with(request_line), "{request}");
    for header in [
        format!("host: 127.0.0.1:{port}"),
        format!("user-agent: pillion/{}", env!("CARGO_PKG_VERSION")),
        "content-length: 2".to_owned(),
    ] {
        let line = format!("\r\n{header}\r\n");
        assert_eq!(request.matches(&line).count(), 1, "{header}: {request}");
    }
}

#[tokio::test]
async fn sequential_requests_share_a_connection() {
    let server = Server::with(&[PLAIN, CHUNKED, EMPTY, PLAIN]).await;
    let shortcut = server.shortcut();
    assert_eq!(text(&shortcut).await, "{}");
    assert_eq!(text(&shortcut).await, "data: 1\n\n");
    assert_eq!(text(&shortcut).await, "");
    assert_eq!(text(&shortcut).await, "{}");
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn concurrent_requests_have_separate_connections() {
    let server = Server::with(&[PLAIN, PLAIN]).await;
    let shortcut = server.shortcut();
    for _ in 0..2 {
        let (a, b) = (post(&shortcut).await, post(&shortcut).await);
        for sent in [a, b] {
            assert_eq!(response(sent).text().await.unwrap(), "{}");
        }
    }
    assert_eq!(server.connections(), 2);
}

#[tokio::test]
async fn a_closed_idle_connection_is_replaced() {
    let server = Server::with(&[PLAIN]).await;
    let shortcut = server.shortcut();
    for _ in 0..3 {
        assert_eq!(text(&shortcut).await, "{}");
        // Waits until the end of the connection has arrived at the client.
        let taken = shortcut.take(Handle::current().id(), ConnectionChoice::Any);
        if let Some((mut connection, _)) = taken {
            poll_fn(|context| {
                if connection.is_free(context) {
                    Poll::Pending
                } else {
                    Poll::Ready(())
                }
            })
            .await;
            assert!(shortcut.release(connection).is_none());
        }
    }
    assert_eq!(server.connections(), 3);
}

#[test]
fn a_close_that_the_runtime_has_not_noticed_is_noticed_before_a_request_is_written() {
    use std::io::{Read, Write};
    use std::net::{Shutdown, TcpListener};

    for unread in [false, true] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (close, closing) = std::sync::mpsc::sync_channel::<()>(0);
        let (closed, was_closed) = std::sync::mpsc::sync_channel::<()>(0);
        let serving = std::thread::spawn(move || {
            let mut buffer = [0; 1024];
            let (mut first, _) = listener.accept().unwrap();
            for _ in 0..2 {
                assert!(first.read(&mut buffer).unwrap() > 0);
                first.write_all(PLAIN.as_bytes()).unwrap();
            }
            closing.recv().unwrap();
            if unread {
                // The server sends a message that nothing requested, such as the reason for a
                // close.
                let timeout = b"HTTP/1.1 408 Request Timeout\r\n\r\n";
                first.write_all(timeout).unwrap();
            }
            first.shutdown(Shutdown::Both).unwrap();
            drop(first);
            closed.send(()).unwrap();
            let (mut second, _) = listener.accept().unwrap();
            assert!(second.read(&mut buffer).unwrap() > 0);
            second.write_all(PLAIN.as_bytes()).unwrap();
        });
        runtime().block_on(async {
            let shortcut = client_for_port(port);
            for _ in 0..2 {
                assert_eq!(text(&shortcut).await, "{}");
            }
            close.send(()).unwrap();
            // Blocks the thread, so that the runtime does not detect the close.
            was_closed.recv().unwrap();
            response(post_over(&shortcut, ConnectionChoice::Reliable).await);
        });
        serving.join().unwrap();
    }
}

#[tokio::test]
async fn a_call_uses_a_kept_connection_only_after_the_server_has_kept_one() {
    let server = Server::with(&[PLAIN; 10]).await;
    let shortcut = server.shortcut();
    let call = async || {
        let sent = post_over(&shortcut, ConnectionChoice::Reliable).await;
        assert_eq!(response(sent).text().await.unwrap(), "{}");
    };
    call().await;
    call().await;
    assert_eq!(server.connections(), 2);
    // A request that may be repeated shows that the server keeps connections.
    assert_eq!(text(&shortcut).await, "{}");
    call().await;
    assert_eq!(server.connections(), 2);
}

#[tokio::test]
async fn after_an_unannounced_close_no_connection_is_kept() {
    let server = Server::with(&[PLAIN, PLAIN, ""]).await;
    let shortcut = server.shortcut();
    assert_eq!(text(&shortcut).await, "{}");
    assert_eq!(text(&shortcut).await, "{}");
    assert!(matches!(post(&shortcut).await, SendOutcome::Broken(_)));
    assert_eq!(server.connections(), 1);
    for connections in 2..5 {
        assert_eq!(text(&shortcut).await, "{}");
        assert_eq!(server.connections(), connections);
    }
    assert_eq!(idle_connections(&shortcut), 0);
    shortcut.forget_closes();
    for _ in 0..2 {
        assert_eq!(text(&shortcut).await, "{}");
        assert_eq!(server.connections(), 5);
    }
}

#[tokio::test]
async fn dropping_a_response_closes_its_connection() {
    let server = Server::with(&[PLAIN, PLAIN]).await;
    let shortcut = server.shortcut();
    drop(post(&shortcut).await);
    assert_eq!(text(&shortcut).await, "{}");
    assert_eq!(server.connections(), 2);
}

#[tokio::test]
async fn a_response_without_a_body_frees_its_connection_at_once() {
    let server = Server::with(&[EMPTY, PLAIN]).await;
    let shortcut = server.shortcut();
    drop(post(&shortcut).await);
    assert_eq!(text(&shortcut).await, "{}");
    assert_eq!(server.connections(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_idle_connection_is_closed_after_a_timeout() {
    let server = Server::with(&[PLAIN, PLAIN]).await;
    let shortcut = server.shortcut();
    assert_eq!(text(&shortcut).await, "{}");
    assert_eq!(idle_connections(&shortcut), 1);
    shortcut.idle_connections.lock().connections_by_runtime[0].idle_connections[0].idle_since -=
        IDLE_TIMEOUT;
    sleep(IDLE_TIMEOUT * 2).await;
    assert!(
        shortcut
            .idle_connections
            .lock()
            .connections_by_runtime
            .is_empty()
    );
    assert_eq!(text(&shortcut).await, "{}");
    assert_eq!(server.connections(), 2);
}

#[tokio::test]
async fn many_requests_leave_one_task_and_dropping_the_client_leaves_none() {
    let server = Server::with(&[PLAIN; 100]).await;
    let shortcut = server.shortcut();
    let tasks = || Handle::current().metrics().num_alive_tasks();
    assert_eq!(text(&shortcut).await, "{}");
    let after_one = tasks();
    for _ in 0..99 {
        assert_eq!(text(&shortcut).await, "{}");
    }
    // The server's task for the connection has ended or will end soon.
    assert!(tasks() <= after_one, "{} of {after_one}", tasks());
    drop(shortcut);
    while tasks() > 1 {
        tokio::task::yield_now().await;
    }
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn a_configured_host_header_is_sent() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let shortcut = client_for_port(port);
    let host = (HOST, HeaderValue::from_static("mcp.local"));
    let headers = HeaderMap::from_iter([host]);
    let (request, sent) = tokio::join!(
        serve_one(&listener),
        shortcut.post(&headers, Bytes::from("{}"), ConnectionChoice::Any)
    );
    response(sent);
    assert!(request.contains("\r\nhost: mcp.local\r\n"), "{request}");
    assert!(!request.contains("127.0.0.1"), "{request}");
}

#[tokio::test]
async fn a_broken_connection_is_an_error_without_a_retry() {
    // The server closes the connection without a response, or after half a response.
    let server = Server::with(&[""]).await;
    let sent = post(&server.shortcut()).await;
    assert!(matches!(sent, SendOutcome::Broken(_)));
    assert_eq!(server.connections(), 1);

    let server = Server::with(&["HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{}"]).await;
    let half = response(post(&server.shortcut()).await);
    assert!(half.bytes().await.is_err());
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn after_a_redirect_the_shortcut_is_not_used() {
    let server = Server::with(&["HTTP/1.1 307 There\r\nlocation: /x\r\n\r\n"]).await;
    let shortcut = server.shortcut();
    let SendOutcome::Redirected(to) = post(&shortcut).await else {
        panic!("not redirected");
    };
    assert_eq!(to, server.url.join("/x").unwrap());
    assert!(matches!(post(&shortcut).await, SendOutcome::NotSent));
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn a_cross_origin_redirect_is_rejected_and_other_redirects_are_returned() {
    const AWAY: &str = "HTTP/1.1 302 There\r\nlocation: http://127.0.0.1:1/\r\n\r\n";
    let server = Server::with(&[AWAY]).await;
    let sent = post(&server.shortcut()).await;
    assert!(matches!(sent, SendOutcome::RedirectRejected));
    for redirect in [
        "HTTP/1.1 302 There\r\nlocation: /x\r\ncontent-length: 0\r\n\r\n",
        "HTTP/1.1 308 There\r\nlocation: http://\r\ncontent-length: 0\r\n\r\n",
        "HTTP/1.1 307 There\r\ncontent-length: 0\r\n\r\n",
    ] {
        let server = Server::with(Box::leak(Box::new([redirect]))).await;
        let returned = response(post(&server.shortcut()).await);
        assert!(returned.status().is_redirection(), "{redirect}");
    }
}

#[tokio::test]
async fn a_refused_connection_falls_back_to_the_regular_client() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let sent = post(&client_for_port(port)).await;
    assert!(matches!(sent, SendOutcome::NotSent));
}

#[test]
fn a_connection_is_not_shared_between_runtimes() {
    let (first, second, third) = (runtime(), runtime(), runtime());
    let server = first.block_on(Server::with(&[PLAIN, PLAIN]));
    let shortcut = server.shortcut();
    let (end, ended) = tokio::sync::oneshot::channel::<()>();
    let serving = std::thread::spawn(move || first.block_on(ended));
    for runtime in [&second, &third, &second, &third] {
        assert_eq!(runtime.block_on(text(&shortcut)), "{}");
    }
    assert_eq!(server.connections(), 2);
    drop(end);
    let _ = serving.join().unwrap();
}
