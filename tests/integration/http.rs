use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::assertions::ExpectJson;
use crate::program::Daemon;
use crate::sidecar::Sidecar;

/// The maximum wait for the next bytes of a response.
const TIMEOUT: Duration = Duration::from_secs(20);
/// The maximum wait for the next bytes of a response over TCP.
pub const TCP_TIMEOUT: Duration = Duration::from_secs(120);

/// An HTTP response, as received.
#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    /// The head of the response in lower case, one header per line.
    pub head: String,
    pub body: Vec<u8>,
}

impl Reply {
    /// Returns the body as text.
    pub fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }

    /// Returns the JSON body of a response that must have this status.
    pub fn expect(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{self:?}");
        self.json()
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

/// A sidecar on a Unix socket. The client crate is not used, so that requests can be malformed.
pub trait Rest {
    fn socket(&self) -> &Path;

    /// Sends one request on a separate connection.
    fn send(&self, method: &str, target: &str, headers: &str, body: &[u8]) -> Reply {
        self.send_within(method, target, headers, body, TIMEOUT)
    }

    /// Like [`send`](Self::send), with a maximum wait for the next bytes.
    fn send_within(
        &self,
        method: &str,
        target: &str,
        headers: &str,
        body: &[u8],
        timeout: Duration,
    ) -> Reply {
        let headers = format!("host: x\r\nconnection: close\r\n{headers}");
        let request = request(&format!("{method} {target}"), &headers, body);
        exchange_on(self.connect_within(timeout), &request)
    }

    fn get(&self, target: &str) -> Reply {
        self.get_with(target, "")
    }

    fn get_with(&self, target: &str, headers: &str) -> Reply {
        self.send("GET", target, headers, b"")
    }

    fn post(&self, target: &str, body: impl AsRef<[u8]>) -> Reply {
        self.post_with(target, "", body)
    }

    fn post_with(&self, target: &str, headers: &str, body: impl AsRef<[u8]>) -> Reply {
        self.send("POST", target, headers, body.as_ref())
    }

    /// Runs a tool. Returns the body of the response.
    fn execute(&self, tool: &str, arguments: &Value) -> Value {
        let target = format!("/api/v1/tools/execute/{tool}");
        self.post(&target, arguments.to_string()).json()
    }

    /// Returns the recorded calls that a query such as `?user=ada` selects, newest first.
    fn recorded(&self, query: &str) -> Vec<Value> {
        let response = self.get(&format!("/api/v1/tool-calls{query}")).expect(200);
        response["calls"].items().clone()
    }

    /// Returns the recorded call with this ID.
    fn record(&self, id: &Value) -> Value {
        let target = format!("/api/v1/tool-calls/{}", id.text());
        self.get(&target).expect(200)["call"].clone()
    }

    /// Connects to the socket, with a maximum wait for the next bytes.
    fn connect(&self) -> UnixStream {
        self.connect_within(TIMEOUT)
    }

    fn connect_within(&self, timeout: Duration) -> UnixStream {
        let stream = UnixStream::connect(self.socket()).unwrap();
        stream.set_read_timeout(Some(timeout)).unwrap();
        stream
    }

    /// Sends one request on a separate connection, which stays open. Does not wait for the response.
    fn begin(
        &self,
        method: &str,
        target: &str,
        headers: &str,
        body: impl AsRef<[u8]>,
    ) -> UnixStream {
        let mut stream = self.connect();
        let headers = format!("host: x\r\n{headers}");
        let request = request(&format!("{method} {target}"), &headers, body.as_ref());
        stream.write_all(&request).unwrap();
        stream
    }

    /// Sends bytes and reads until the peer closes the connection.
    fn exchange(&self, request: &[u8]) -> Reply {
        exchange_on(self.connect(), request)
    }
}

impl Rest for Path {
    fn socket(&self) -> &Path {
        self
    }
}

impl Rest for Daemon {
    fn socket(&self) -> &Path {
        &self.socket
    }
}

impl Rest for Sidecar {
    fn socket(&self) -> &Path {
        &self.socket
    }
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
