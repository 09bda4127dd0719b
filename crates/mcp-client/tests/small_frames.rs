//! A server answers a call with an endless flood of frames of a few bytes. The thread that reads
//! them runs other tasks meanwhile, and the call ends at its deadline.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::future::pending;
use std::io::Write;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use pillion_mcp_client::{McpClient, McpErrorKind, ServerConfig, StdioCommand, TransportKind};
use pillion_testkit::{Fault, FaultServer, Reply, listen};
use serde_json::{Value, json};
use tokio::runtime::Builder;
use tokio_tungstenite::tungstenite::handshake::server::{Request, Response};
use tokio_tungstenite::tungstenite::{Message, accept_hdr};

/// An endless response to a call: its name, its beginning, and what follows again and again.
type Flood = (&'static str, &'static [u8], &'static [u8]);

const CHUNKED_JSON: &[u8] =
    b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n";
const CHUNKED_EVENTS: &[u8] =
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";

const HTTP_FLOODS: [Flood; 5] = [
    ("chunks of one byte", CHUNKED_JSON, b"1\r\n \r\n"),
    ("early hints", b"", b"HTTP/1.1 103 Early Hints\r\n\r\n"),
    ("comments", CHUNKED_EVENTS, b"2\r\n:\n\r\n"),
    ("events without data", CHUNKED_EVENTS, b"7\r\ndata:\n\n\r\n"),
    ("bytes of an event", CHUNKED_EVENTS, b"1\r\nx\r\n"),
];

const WEB_SOCKET_FLOODS: [Flood; 5] = [
    ("pings", b"", b"\x89\x08-ping-me"),
    ("empty pings", b"", b"\x89\x00"),
    ("pongs", b"", b"\x8a\x00"),
    ("empty texts", b"", b"\x81\x00"),
    ("empty fragments", b"\x01\x00", b"\x00\x00"),
];

/// Returns the response to a request other than a call.
fn response(request: &Value) -> Option<String> {
    let reply = match request["method"].as_str()? {
        "initialize" => Reply::result(&json!({
            "protocolVersion": request["params"]["protocolVersion"], "capabilities": {"tools": {}},
            "serverInfo": {"name": "fake", "version": "1"},
        })),
        "tools/call" => return None,
        _ => Reply::error(-32601, "Method not found"),
    };
    Some(reply.response(&request["id"].to_string()))
}

/// Sends a flood until the client closes the connection, without reading. Returns the number of
/// bytes sent.
fn send_flood(stream: &mut TcpStream, (_, start, unit): Flood) -> usize {
    let units = unit.repeat(16_384 / unit.len());
    let mut written = start.len();
    let mut result = stream.write_all(start);
    while result.is_ok() {
        result = stream.write_all(&units);
        written += units.len();
    }
    written
}

/// Answers the requests of a connection until a call arrives, which gets the flood. Returns the
/// number of bytes of the flood.
fn serve(stream: &TcpStream, flood: Flood) -> Option<usize> {
    #[expect(clippy::result_large_err, reason = "the library chose this error")]
    let agree = |request: &Request, mut response: Response| {
        let name = "sec-websocket-protocol";
        let protocol = request.headers()[name].clone();
        response.headers_mut().insert(name, protocol);
        Ok(response)
    };
    let mut socket = accept_hdr(stream.try_clone().ok()?, agree).ok()?;
    loop {
        let Message::Text(text) = socket.read().ok()? else {
            continue;
        };
        let request: Value = serde_json::from_str(&text).unwrap();
        match response(&request) {
            _ if request.get("id").is_none() => {}
            Some(reply) => socket.send(Message::text(reply)).ok()?,
            None => return Some(send_flood(socket.get_mut(), flood)),
        }
    }
}

/// Starts a WebSocket server, and returns its port. The channel receives the number of bytes of
/// each flood that the client has ended.
fn start_web_socket(flood: Flood) -> (u16, mpsc::Receiver<usize>) {
    let listener = listen();
    listener.set_nonblocking(false).unwrap();
    let port = listener.local_addr().unwrap().port();
    let (ended, floods) = mpsc::sync_channel(16);
    thread::spawn(move || {
        while let Ok((stream, _)) = listener.accept() {
            let ended = ended.clone();
            thread::spawn(move || {
                if let Some(bytes) = serve(&stream, flood) {
                    let _ = ended.send(bytes);
                }
            });
        }
    });
    (port, floods)
}

/// Starts an HTTP server on a separate thread, and returns its URL.
fn start_http((_, start, unit): Flood) -> String {
    let (url, started) = mpsc::sync_channel(1);
    thread::spawn(move || {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let server = FaultServer::start(move |request| {
                if request.json().get("id").is_none() {
                    return vec![Fault::text("202 Accepted", "")];
                }
                match response(&request.json()) {
                    Some(body) => vec![Fault::json(body)],
                    None => vec![
                        Fault::Send(start.to_vec()),
                        Fault::Forever(unit.repeat(16_384 / unit.len())),
                    ],
                }
            })
            .await;
            url.send(server.url.clone()).unwrap();
            pending::<()>().await;
        });
    });
    started.recv().unwrap()
}

/// Calls a tool, and checks that another task on the same thread, which could run every 10 ms, runs
/// at least five times in the 2 s until the deadline.
async fn call(name: &str, mut config: ServerConfig) -> McpClient {
    config.timeout = Duration::from_secs(2);
    let client = McpClient::new(config);
    client.connect().await.unwrap();
    let ticks = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&ticks);
    let ticking = tokio::spawn(async move {
        loop {
            tokio::time::sleep(Duration::from_millis(10)).await;
            counter.fetch_add(1, Ordering::Relaxed);
        }
    });
    let error = client.call_tool("work", &json!({})).await.unwrap_err();
    let ticks = ticks.load(Ordering::Relaxed);
    ticking.abort();
    let is_fair = ticks >= 5 || !matches!(error.kind(), McpErrorKind::Timeout { .. });
    assert!(is_fair, "{name}: {ticks} ticks, {error}");
    client
}

#[tokio::test]
async fn small_frames_of_http_leave_the_thread_to_other_tasks() {
    for flood in HTTP_FLOODS {
        let mut config = ServerConfig::new("flood", &start_http(flood)).unwrap();
        config.transport = TransportKind::StreamableHttp;
        call(flood.0, config).await;
    }
}

#[tokio::test]
async fn small_frames_of_a_web_socket_end_the_connection() {
    for flood in WEB_SOCKET_FLOODS {
        let (port, floods) = start_web_socket(flood);
        let url = format!("ws://127.0.0.1:{port}/mcp");
        let client = call(flood.0, ServerConfig::new("flood", &url).unwrap()).await;
        if flood.0 == "empty fragments" {
            // A message never ends, so the connection ends when the server misses a ping.
            continue;
        }
        // Most of these bytes are still in the system's buffers.
        let receive = move || floods.recv_timeout(Duration::from_secs(30));
        let bytes = tokio::task::spawn_blocking(receive).await.unwrap().unwrap();
        assert!(bytes < 32 << 20, "{}: {bytes}", flood.0);
        drop(client);
    }
}

#[tokio::test]
async fn blank_lines_leave_the_thread_to_other_tasks() {
    let script = r#"
import json, os, sys
for line in sys.stdin:
    message = json.loads(line)
    if message.get("method") == "initialize":
        result = {"protocolVersion": message["params"]["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": {"name": "fake", "version": "1"}}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
    elif message.get("method") == "tools/call":
        while True:
            os.write(1, b"\n" * 65536)
    elif "id" in message:
        error = {"code": -32601, "message": "Method not found"}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": error}), flush=True)
"#;
    let mut command = StdioCommand::new("python3");
    command.args = vec!["-c".to_owned(), script.to_owned()];
    call("blank lines", ServerConfig::for_command("flood", command)).await;
}
