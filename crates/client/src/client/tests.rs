use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;

use super::*;

/// A peer that reads each request's head (and the part of the body that arrives with it) and sends
/// the next of its replies on the connection that the client uses.
struct Peer {
    _directory: tempfile::TempDir,
    path: PathBuf,
    heads: mpsc::Receiver<String>,
}

/// What the peer does after reading a request.
enum Reply {
    /// Sends the bytes and keeps the connection open.
    Keep(Vec<u8>),
    /// Sends the bytes and closes the connection.
    Close(Vec<u8>),
    /// Sends nothing until the client disconnects.
    Silence,
}

impl Peer {
    fn start(replies: Vec<Reply>) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("s");
        let listener = UnixListener::bind(&path).unwrap();
        let (sender, heads) = mpsc::sync_channel(1_000);
        thread::spawn(move || serve(&listener, replies, &sender));
        Self {
            _directory: directory,
            path,
            heads,
        }
    }

    fn client(&self) -> Client {
        client_with_timeout(&self.path, 10_000)
    }
}

fn client_with_timeout(path: impl Into<PathBuf>, millis: u64) -> Client {
    Client::builder(path)
        .timeout(Duration::from_millis(millis))
        .build()
}

fn serve(listener: &UnixListener, replies: Vec<Reply>, heads: &mpsc::SyncSender<String>) {
    let mut replies = replies.into_iter();
    for connection in listener.incoming() {
        let mut connection = connection.unwrap();
        while let Some(head) = read_head(&mut connection) {
            heads.send(head).unwrap();
            match replies.next().unwrap() {
                Reply::Keep(bytes) => connection.write_all(&bytes).unwrap(),
                Reply::Close(bytes) => {
                    connection.write_all(&bytes).unwrap();
                    break;
                }
                Reply::Silence => while connection.read(&mut [0; 64]).unwrap_or(0) > 0 {},
            }
        }
    }
}

fn read_head(connection: &mut UnixStream) -> Option<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        if connection.read(&mut byte).ok()? == 0 {
            return None;
        }
        head.push(byte[0]);
    }
    Some(String::from_utf8(head).unwrap())
}

fn http(status: u16, body: &str) -> Vec<u8> {
    let length = body.len();
    format!("HTTP/1.1 {status} X\r\ncontent-length: {length}\r\n\r\n{body}").into_bytes()
}

const HEALTHY: &str = r#"{"status":"ok","version":"1.2.3","tools":4}"#;

#[test]
fn a_connection_is_kept_between_calls() {
    // The peer serves one connection at a time until it closes: a second connection would hang.
    let peer = Peer::start(vec![
        Reply::Keep(http(200, HEALTHY)),
        Reply::Keep(http(200, HEALTHY)),
    ]);
    let client = peer.client();
    assert_eq!(client.fetch(route::HEALTH).unwrap().tools, 4);
    assert_eq!(client.fetch(route::HEALTH).unwrap().version, "1.2.3");
}

#[test]
fn a_closed_connection_is_replaced_before_a_request_is_sent() {
    let peer = Peer::start(vec![
        Reply::Close(http(200, HEALTHY)),
        Reply::Close(http(200, HEALTHY)),
    ]);
    let client = peer.client();
    client.fetch(route::HEALTH).unwrap();
    peer.heads.recv().unwrap();
    thread::sleep(Duration::from_millis(50));
    client.fetch(route::HEALTH).unwrap();
}

#[test]
fn a_forked_child_opens_its_own_connection() {
    let peer = Peer::start(vec![
        Reply::Close(http(200, HEALTHY)),
        Reply::Keep(http(200, HEALTHY)),
    ]);
    let client = peer.client();
    client.fetch(route::HEALTH).unwrap();
    let parents = client.agent.lock().clone().unwrap().1;
    *client.agent.lock() = Some((0, parents));
    client.fetch(route::HEALTH).unwrap();
    let owner = client.agent.lock().as_ref().unwrap().0;
    assert_eq!(owner, std::process::id());
}

#[test]
fn requests_carry_the_caller_and_an_encoded_name() {
    let not_found =
        r#"{"success":false,"tool":"a b","error":"Tool 'a b' not found","error_code":"not_found"}"#;
    let peer = Peer::start(vec![Reply::Close(http(200, not_found))]);
    let caller = Caller::default()
        .user("Jürgen")
        .channel("c")
        .request_id("r-1");
    let response = peer.client().execute("a b", &json!({}), &caller).unwrap();
    assert!(
        matches!(response, ExecuteResponse::NotFound(failure) if failure.error_code == "not_found")
    );
    let head = peer.heads.recv().unwrap().to_lowercase();
    let request_line = "post /api/v1/tools/execute/a%20b http/1.1\r\n";
    assert!(head.starts_with(request_line), "{head}");
    for line in [
        "x-pillion-user: jürgen\r\n",
        "x-pillion-channel: c\r\n",
        "x-request-id: r-1\r\n",
        "content-type: application/json\r\n",
    ] {
        assert!(head.contains(line), "{head}");
    }
}

#[test]
fn a_line_break_in_a_header_is_rejected() {
    let client = Client::new("/nowhere");
    let caller = Caller::default().user("a\r\nx-evil: 1");
    let error = client.execute("t", &json!({}), &caller).unwrap_err();
    assert!(matches!(
        error,
        ClientError::InvalidHeader {
            header: "x-pillion-user"
        }
    ));
    assert_eq!(error.code(), "invalid_input");
}

#[test]
fn a_refused_connection_is_distinguished_from_other_failures() {
    let directory = tempfile::tempdir().unwrap();
    let missing = directory.path().join("missing");
    let error = Client::new(&missing).fetch(route::HEALTH).unwrap_err();
    assert!(error.is_not_running());
    let message = error.to_string();
    assert!(message.contains(missing.to_str().unwrap()), "{error}");
    assert_eq!(error.code(), "unavailable");

    let stale = directory.path().join("stale");
    drop(UnixListener::bind(&stale).unwrap());
    let error = Client::new(&stale).fetch(route::HEALTH).unwrap_err();
    assert!(error.is_not_running());

    let long = directory.path().join("x".repeat(200));
    let error = Client::new(&long).fetch(route::HEALTH).unwrap_err();
    assert!(matches!(error, ClientError::Connect { .. }), "{error:?}");
}

#[test]
fn a_silent_server_times_out() {
    let peer = Peer::start(vec![Reply::Silence]);
    let client = client_with_timeout(&peer.path, 150);
    let started = Instant::now();
    let error = client.fetch(route::HEALTH).unwrap_err();
    assert!(error.is_timeout(), "{error:?}");
    assert!(started.elapsed() >= Duration::from_millis(150));
    assert!(started.elapsed() < Duration::from_secs(5));
}

#[test]
fn a_server_that_never_accepts_times_out() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("s");
    let _listener = UnixListener::bind(&path).unwrap();
    let client = client_with_timeout(&path, 100);
    assert!(client.fetch(route::HEALTH).unwrap_err().is_timeout());
}

#[test]
fn a_full_backlog_times_out() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("s");
    let listener = nix::sys::socket::socket(
        nix::sys::socket::AddressFamily::Unix,
        nix::sys::socket::SockType::Stream,
        nix::sys::socket::SockFlag::empty(),
        None,
    )
    .unwrap();
    let address = nix::sys::socket::UnixAddr::new(&path).unwrap();
    nix::sys::socket::bind(std::os::fd::AsRawFd::as_raw_fd(&listener), &address).unwrap();
    nix::sys::socket::listen(&listener, nix::sys::socket::Backlog::new(0).unwrap()).unwrap();
    let _queued = UnixStream::connect(&path).unwrap();
    let client = client_with_timeout(&path, 300);
    assert!(client.fetch(route::HEALTH).unwrap_err().is_timeout());
}

#[test]
fn a_drip_of_bytes_does_not_extend_the_deadline() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("s");
    let listener = UnixListener::bind(&path).unwrap();
    thread::spawn(move || {
        let (mut connection, _) = listener.accept().unwrap();
        let head = "HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n";
        if connection.write_all(head.as_bytes()).is_ok() {
            while connection.write_all(b" ").is_ok() {
                thread::sleep(Duration::from_millis(20));
            }
        }
    });
    let client = client_with_timeout(&path, 300);
    let error = client.fetch(route::HEALTH).unwrap_err();
    assert!(error.is_timeout(), "{error:?}");
}

#[test]
fn a_response_over_the_limit_is_not_read() {
    let peer = Peer::start(vec![Reply::Close(http(200, &"x".repeat(5000)))]);
    let client = Client::builder(&peer.path).max_response_bytes(1000).build();
    let error = client.fetch(route::HEALTH).unwrap_err();
    let is_too_large = matches!(error, ClientError::TooLarge { limit_bytes: 1000 });
    assert!(is_too_large, "{error:?}");
}

#[test]
fn each_kind_of_malformed_response_has_its_error() {
    let cases = [
        (
            b"HTTP/1.1 200 X\r\ncontent-length: 100\r\n\r\n{".to_vec(),
            "closed",
        ),
        (Vec::new(), "closed"),
        (b"SSH-2.0-OpenSSH\r\n\r\n".to_vec(), "not valid HTTP"),
        (
            http(201, "{\"status\": 1"),
            "HTTP status 201) is not the expected JSON",
        ),
        (
            http(200, "\"\u{fffd}\"")
                .into_iter()
                .map(|byte| if byte == 0xef { 0xff } else { byte })
                .collect(),
            "not the expected JSON",
        ),
        (http(502, "<html>"), "HTTP status 502"),
    ];
    for (bytes, expected) in cases {
        let shown = String::from_utf8_lossy(&bytes).into_owned();
        let peer = Peer::start(vec![Reply::Close(bytes)]);
        let error = peer.client().fetch(route::HEALTH).unwrap_err();
        assert!(error.to_string().contains(expected), "{shown:?}: {error:?}");
    }
}

#[test]
fn an_error_response_keeps_its_body() {
    let body = r#"{"success":false,"error":"no","error_code":"invalid_input"}"#;
    let peer = Peer::start(vec![Reply::Close(http(400, body))]);
    let result = peer.client().execute("t", &json!([1]), &Caller::default());
    let error = result.unwrap_err();
    assert_eq!(error.code(), "invalid_input");
    let ClientError::Status { status, failure } = error else {
        panic!("{error:?}");
    };
    assert_eq!((status, failure.error.as_str()), (400, "no"));
}

#[test]
fn a_response_sent_before_the_request_body_was_read_arrives() {
    let body = r#"{"success":false,"error":"too long","error_code":"invalid_input"}"#;
    let peer = Peer::start(vec![Reply::Close(http(413, body))]);
    let arguments = json!({"text": "x".repeat(4_000_000)});
    let result = peer.client().execute("t", &arguments, &Caller::default());
    let error = result.unwrap_err();
    let is_too_long = matches!(error, ClientError::Status { status: 413, .. });
    assert!(is_too_long, "{error:?}");
}

#[test]
fn the_hook_ends_a_wait() {
    let peer = Peer::start(vec![Reply::Silence]);
    let client = Client::builder(&peer.path)
        .timeout(Duration::from_secs(30))
        .interrupt_when(|| true)
        .build();
    let started = Instant::now();
    let error = client.fetch(route::HEALTH).unwrap_err();
    assert!(matches!(error, ClientError::Interrupted), "{error:?}");
    assert!(started.elapsed() < Duration::from_secs(5));
}

#[test]
fn raw_bodies_are_the_bytes_that_were_sent() {
    let peer = Peer::start(vec![Reply::Close(http(200, "{\"a\":  1}"))]);
    let response = peer.client().request(route::LIST_TOOLS, []).send();
    assert_eq!(response.unwrap().body(), b"{\"a\":  1}");
}

#[test]
fn a_slow_tool_does_not_count_as_a_failure_of_the_sidecar() {
    let peer = Peer::start(vec![Reply::Silence, Reply::Silence]);
    let client = client_with_timeout(&peer.path, 200);
    let caller = Caller::default();
    let error = client.execute("slow", &json!({}), &caller).unwrap_err();
    let message = error.to_string();
    assert_eq!(message, "Tool 'slow' returned no result within 0.2s");
    assert!(error.is_timeout());
    assert_eq!(error.code(), "timeout");
    let error = client.fetch(route::HEALTH).unwrap_err();
    assert_eq!(error.to_string(), "The sidecar did not respond within 0.2s");
    let running = |tools: &[&str]| {
        let timeout = Duration::from_secs(1);
        let error = ClientError::Timeout { timeout };
        error.into_tool_timeout(tools.iter().copied()).to_string()
    };
    assert_eq!(
        running(&["a", "a"]),
        "Tool 'a' returned no result within 1.0s"
    );
    assert_eq!(
        running(&["a", "b"]),
        "The tools 'a' and 'b' returned no result within 1.0s"
    );
    assert_eq!(
        running(&["a", "b", "c", "d", "e"]),
        "The tools 'a', 'b', 'c' and 2 more returned no result within 1.0s"
    );
}
