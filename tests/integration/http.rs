use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;

/// A raw response.
#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    /// In lower case, one header per line.
    pub head: String,
    pub body: Vec<u8>,
}

impl Reply {
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&self.body)))
    }
}

/// Sends one request on a separate connection. The client crate is not used, so that requests can
/// be malformed.
pub fn send(socket: &Path, method: &str, target: &str, headers: &str, body: &[u8]) -> Reply {
    let length = body.len();
    let head = format!(
        "{method} {target} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {length}\r\n{headers}\r\n"
    );
    let mut request = head.into_bytes();
    request.extend_from_slice(body);
    exchange(socket, &request)
}

pub fn get(socket: &Path, target: &str) -> Reply {
    send(socket, "GET", target, "", b"")
}

pub fn post(socket: &Path, target: &str, body: impl AsRef<[u8]>) -> Reply {
    send(socket, "POST", target, "", body.as_ref())
}

/// Sends bytes and reads until the peer closes the connection.
pub fn exchange(socket: &Path, request: &[u8]) -> Reply {
    exchange_within(socket, request, Duration::from_secs(20))
}

/// Like [`exchange`], with a maximum wait for the next bytes.
pub fn exchange_within(socket: &Path, request: &[u8], wait: Duration) -> Reply {
    let mut stream = UnixStream::connect(socket).unwrap();
    stream.set_read_timeout(Some(wait)).unwrap();
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
