use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;

/// A timeout that is long enough for any response on this machine.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(60);

/// Starts a server on 127.0.0.1 that sends these bytes on each connection, and optionally keeps the
/// connection open. Returns the server's address.
async fn server(response: String, keeps_open: bool) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        let mut open = Vec::new();
        while let Ok((mut peer, _)) = listener.accept().await {
            let _ = peer.read(&mut [0; 4096]).await;
            let _ = peer.write_all(response.as_bytes()).await;
            if keeps_open {
                open.push(peer);
            }
        }
    });
    address
}

fn ok(body: &str) -> String {
    let length = body.len();
    format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}")
}

async fn get(url: &str, timeout: Duration) -> Result<HttpResponse, HttpError> {
    let client = HttpClient::new(&EgressPolicy::default()).unwrap();
    client
        .send(HttpRequest::get(url.parse().unwrap()), timeout)
        .await
}

#[tokio::test]
async fn a_body_may_have_exactly_the_maximum_size() {
    let address = server(ok("12345"), false).await;
    let url = format!("http://{address}/");
    let read = get(&url, RESPONSE_TIMEOUT).await.unwrap().bytes(5).await;
    assert_eq!(read.unwrap(), "12345");
    let read = get(&url, RESPONSE_TIMEOUT).await.unwrap().bytes(4).await;
    assert!(
        matches!(read, Err(HttpError::TooLong { limit: 4 })),
        "{read:?}"
    );
}

#[tokio::test]
async fn the_deadline_covers_the_head_and_the_body() {
    let short = Duration::from_millis(200);
    let silent = server(String::new(), true).await;
    let error = get(&format!("http://{silent}/"), short).await.unwrap_err();
    assert!(matches!(error, HttpError::Timeout), "{error}");

    let half = "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n12345".to_owned();
    let stalled = server(half, true).await;
    let mut response = get(&format!("http://{stalled}/"), Duration::from_secs(5))
        .await
        .unwrap();
    assert_eq!(response.chunk().await.unwrap().unwrap(), "12345");
    let error = response.chunk().await.unwrap_err();
    assert!(matches!(error, HttpError::Timeout), "{error}");
}

#[tokio::test]
async fn l1_a_body_that_breaks_off_is_an_error() {
    let half = "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n12345".to_owned();
    let address = server(half, false).await;
    let response = get(&format!("http://{address}/"), RESPONSE_TIMEOUT)
        .await
        .unwrap();
    let error = response.bytes(100).await.unwrap_err();
    assert!(matches!(error, HttpError::Failed(_)), "{error}");
}

#[tokio::test]
async fn l1_a_redirect_does_not_leave_the_origin() {
    let other = server(ok("stolen"), false).await;
    let redirect = format!(
        "HTTP/1.1 307 Temporary Redirect\r\nLocation: http://{other}/\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    );
    let address = server(redirect, false).await;
    let url = format!("http://{address}/?key=hush");
    let error = get(&url, RESPONSE_TIMEOUT).await.unwrap_err();
    assert!(error.to_string().contains("redirect"), "{error}");
    assert!(!format!("{error:?}{error}").contains("hush"), "{error:?}");
}

#[tokio::test]
async fn l1_errors_and_debug_texts_contain_only_the_host_of_a_url() {
    let unused = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = unused.local_addr().unwrap();
    drop(unused);
    let broken = server("no HTTP at all\r\n\r\n".to_owned(), false).await;
    for (url, is_denied) in [
        (format!("http://ada:hush@{address}/hush?key=hush"), false),
        (format!("http://{broken}/hush?key=hush"), false),
        ("http://169.254.169.254/hush?key=hush".to_owned(), true),
        ("http://plain.example/hush?key=hush".to_owned(), true),
    ] {
        let error = get(&url, RESPONSE_TIMEOUT).await.unwrap_err();
        assert_eq!(
            matches!(error, HttpError::Denied(_)),
            is_denied,
            "{error:?}"
        );
        assert!(!format!("{error:?}{error}").contains("hush"), "{error:?}");
        let request = HttpRequest::post(url.parse().unwrap(), "hush".into());
        assert!(!format!("{request:?}").contains("hush"), "{request:?}");
    }
    let error = get(&format!("http://{address}/"), RESPONSE_TIMEOUT)
        .await
        .unwrap_err();
    assert!(matches!(error, HttpError::Connect(_)), "{error:?}");
}

/// When a server closes a connection.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Closes {
    AfterResponse,
    /// The server closes the connection when the next request arrives, without running the request.
    OnNextRequest,
}

/// Serves requests with an empty body, and counts the requests that the server has run.
async fn serve(listener: TcpListener, closes: Closes, ran: Arc<AtomicUsize>) {
    while let Ok((mut peer, _)) = listener.accept().await {
        let ran = Arc::clone(&ran);
        tokio::spawn(async move {
            let response = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
            let is_request = |read: usize| read > 0;
            if !is_request(peer.read(&mut [0; 4096]).await.unwrap_or(0)) {
                return;
            }
            ran.fetch_add(1, Ordering::SeqCst);
            peer.write_all(response).await.unwrap();
            if closes == Closes::OnNextRequest {
                let _ = peer.read(&mut [0; 4096]).await;
            }
        });
    }
}

fn request(method: Method, url: &str) -> HttpRequest {
    HttpRequest {
        method,
        ..HttpRequest::get(url.parse().unwrap())
    }
}

#[tokio::test]
async fn requests_wait_for_a_server_that_restarts() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let url = format!("http://{address}/");
    let ran = Arc::<AtomicUsize>::default();
    let serving = tokio::spawn(serve(listener, Closes::AfterResponse, Arc::clone(&ran)));
    let client = HttpClient::new(&EgressPolicy::default()).unwrap();
    let send = async |method| {
        let sent = client.send(request(method, &url), RESPONSE_TIMEOUT).await;
        sent?.bytes(10).await
    };
    send(Method::POST).await.unwrap();
    serving.abort();
    let _ = serving.await;
    let restart = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        let listener = TcpListener::bind(address).await.unwrap();
        tokio::spawn(serve(listener, Closes::AfterResponse, Arc::clone(&ran)));
    };
    let (post, get, ()) = tokio::join!(send(Method::POST), send(Method::GET), restart);
    post.unwrap();
    get.unwrap();
    assert_eq!(ran.load(Ordering::SeqCst), 3);
}

#[tokio::test]
async fn a_server_that_does_not_run_is_an_error_at_once() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    drop(listener);
    let began = Instant::now();
    let error = get(&url, RESPONSE_TIMEOUT).await.unwrap_err();
    assert!(matches!(error, HttpError::Connect(_)), "{error}");
    assert!(began.elapsed() < Duration::from_secs(5));
}

#[tokio::test]
async fn only_safe_requests_are_sent_again_over_a_new_connection() {
    for closes in [Closes::AfterResponse, Closes::OnNextRequest] {
        for method in [Method::GET, Method::POST, Method::PUT, Method::DELETE] {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let url = format!("http://{}/", listener.local_addr().unwrap());
            let ran = Arc::<AtomicUsize>::default();
            tokio::spawn(serve(listener, closes, Arc::clone(&ran)));
            let client = HttpClient::new(&EgressPolicy::default()).unwrap();
            let mut succeeded = 0;
            for pause in [0, 0, 20, 60, 0, 60, 60, 20, 0, 0, 60, 60] {
                tokio::time::sleep(Duration::from_millis(pause)).await;
                let request = request(method.clone(), &url);
                if client.send(request, RESPONSE_TIMEOUT).await.is_ok() {
                    succeeded += 1;
                }
            }
            // The server did not run the requests that failed on the client.
            assert_eq!(ran.load(Ordering::SeqCst), succeeded, "{method}");
            match method.is_safe() {
                true => assert_eq!(succeeded, 12, "{method}"),
                // The client detects that the server keeps no connections.
                false => assert!(succeeded >= 10, "{method}: {succeeded}"),
            }
        }
    }
}
