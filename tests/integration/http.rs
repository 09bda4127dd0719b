use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use serde_json::Value;

/// The maximum wait for the next bytes of a response.
const TIMEOUT: Duration = Duration::from_secs(20);
/// Like [`TIMEOUT`], over TCP.
pub const TCP_TIMEOUT: Duration = Duration::from_secs(120);

/// A raw response.
#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    /// In lower case, one header per line.
    pub head: String,
    pub body: Vec<u8>,
}

impl Reply {
    /// Returns the body as text.
    pub fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&self.body)))
    }
}

/// Returns a request. `line` is a method and a target; each header ends in a line break.
fn request(line: &str, headers: &str, body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let head = format!("{line} HTTP/1.1\r\ncontent-length: {length}\r\n{headers}\r\n");
    [head.as_bytes(), body].concat()
}

/// Sends one request on a separate connection. The client crate is not used, so that requests can
/// be malformed.
pub fn send(socket: &Path, method: &str, target: &str, headers: &str, body: &[u8]) -> Reply {
    send_within(socket, method, target, headers, body, TIMEOUT)
}

/// Like [`send`], with a maximum wait for the next bytes.
pub fn send_within(
    socket: &Path,
    method: &str,
    target: &str,
    headers: &str,
    body: &[u8],
    timeout: Duration,
) -> Reply {
    let headers = format!("host: x\r\nconnection: close\r\n{headers}");
    let request = request(&format!("{method} {target}"), &headers, body);
    exchange_within(socket, &request, timeout)
}

pub fn get(socket: &Path, target: &str) -> Reply {
    get_with(socket, target, "")
}

pub fn get_with(socket: &Path, target: &str, headers: &str) -> Reply {
    send(socket, "GET", target, headers, b"")
}

pub fn post(socket: &Path, target: &str, body: impl AsRef<[u8]>) -> Reply {
    post_with(socket, target, "", body)
}

pub fn post_with(socket: &Path, target: &str, headers: &str, body: impl AsRef<[u8]>) -> Reply {
    send(socket, "POST", target, headers, body.as_ref())
}

/// Runs a tool over REST. Returns the body of the response.
pub fn execute(socket: &Path, tool: &str, arguments: &Value) -> Value {
    let target = format!("/api/v1/tools/execute/{tool}");
    post(socket, &target, arguments.to_string()).json()
}

/// Connects to the socket, with a maximum wait for the next bytes.
pub fn connect(socket: &Path) -> UnixStream {
    let stream = UnixStream::connect(socket).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    stream
}

/// Sends one request on a separate connection, which stays open. Does not wait for the response.
pub fn begin(
    socket: &Path,
    method: &str,
    target: &str,
    headers: &str,
    body: impl AsRef<[u8]>,
) -> UnixStream {
    let mut stream = connect(socket);
    let headers = format!("host: x\r\n{headers}");
    let request = request(&format!("{method} {target}"), &headers, body.as_ref());
    stream.write_all(&request).unwrap();
    stream
}

/// Sends bytes and reads until the peer closes the connection.
pub fn exchange(socket: &Path, request: &[u8]) -> Reply {
    exchange_within(socket, request, TIMEOUT)
}

fn exchange_within(socket: &Path, request: &[u8], timeout: Duration) -> Reply {
    let stream = UnixStream::connect(socket).unwrap();
    stream.set_read_timeout(Some(timeout)).unwrap();
    exchange_on(stream, request)
}

/// Accepts connections on a free port and handles each on a thread. Returns the address.
pub fn serve(handle: impl Fn(TcpStream) + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let handle = Arc::new(handle);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let handle = Arc::clone(&handle);
            thread::spawn(move || handle(stream.unwrap()));
        }
    });
    address
}

/// Returns an address of this machine that no process listens on.
pub fn free_address() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap()
}

/// Sends one request over TCP. `line` is a method and a target; the headers include `host`.
pub fn send_over_tcp(address: SocketAddr, line: &str, headers: &str, body: &str) -> Reply {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(TCP_TIMEOUT)).unwrap();
    let headers = format!("connection: close\r\n{headers}");
    exchange_on(stream, &request(line, &headers, body.as_bytes()))
}

/// Sends one request with a token over TCP, with further headers.
pub fn send_with_token(
    address: SocketAddr,
    token: &str,
    line: &str,
    headers: &str,
    body: &str,
) -> Reply {
    let headers = format!("host: localhost\r\nauthorization: Bearer {token}\r\n{headers}");
    send_over_tcp(address, line, &headers, body)
}

fn exchange_on(mut stream: impl Read + Write, request: &[u8]) -> Reply {
    // The peer may respond and close before it has read everything.
    drop(stream.write_all(request));
    let mut bytes = Vec::new();
    if let Err(error) = stream.read_to_end(&mut bytes) {
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "{error}");
    }
    parse(&bytes)
}

fn parse(bytes: &[u8]) -> Reply {
    let end = bytes
        .windows(4)
        .position(|window| window == b"\r\n\r\n")
        .unwrap_or_else(|| panic!("no head: {}", String::from_utf8_lossy(bytes)));
    let head = String::from_utf8_lossy(&bytes[..end]).to_lowercase();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    Reply {
        status,
        body: bytes[end + 4..].to_vec(),
        head,
    }
}
