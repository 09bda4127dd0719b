use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use http::HeaderValue;
use http::header::SEC_WEBSOCKET_PROTOCOL;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::server::{Request, Response};
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;

use crate::{Recorded, Recorder, Reply};

/// A fake MCP server over WebSocket. Calls of some tools cause unusual behavior.
///
/// `binary` answers in a binary message; `garbage` first sends messages that are not JSON-RPC;
/// `ask` sends a request and answers with the response to it; `large` answers with `{"bytes": N}`
/// bytes; `close` sends a close frame; `cut` closes the connection without one; `silent` does not
/// answer; `deaf` also stops reading. After `forget`, all requests of the connection are rejected
/// because of an unknown session; `lost` rejects only its own call like that, and `count-lost` answers
/// with the number of these calls. `echo` answers with its arguments, and any other tool with
/// the result of a dice roll.
#[derive(Debug)]
pub struct FakeWebSocket {
    /// The URL that clients connect to, with the scheme `ws`.
    pub url: String,
    /// The WebSocket handshake requests, without bodies.
    pub requests: Recorder,
    open: Arc<AtomicUsize>,
    close_frames: Arc<AtomicUsize>,
    revision: Arc<Mutex<Option<String>>>,
    task: JoinHandle<()>,
}

/// The server's answer to the subprotocol that the client requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subprotocol {
    /// The server answers with the requested subprotocol.
    Agreed,
    /// The server answers without a subprotocol.
    Unnamed,
    /// The server answers with another subprotocol.
    Another,
}

impl FakeWebSocket {
    /// Starts the server.
    ///
    /// # Panics
    /// If there is no free port.
    pub async fn start(subprotocol: Subprotocol) -> Self {
        let listener = TcpListener::from_std(crate::listen()).unwrap();
        let url = format!("ws://{}/mcp", listener.local_addr().unwrap());
        let (requests, open) = (Recorder::default(), Arc::new(AtomicUsize::new(0)));
        let close_frames = Arc::new(AtomicUsize::new(0));
        let revision = Arc::default();
        let connection = Connection {
            requests: requests.clone(),
            open: Arc::clone(&open),
            close_frames: Arc::clone(&close_frames),
            revision: Arc::clone(&revision),
            subprotocol,
        };
        let task = tokio::spawn(async move {
            // Dropping the set with this task closes all connections.
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(connection.clone().serve(stream));
            }
        });
        Self {
            url,
            requests,
            open,
            close_frames,
            revision,
            task,
        }
    }

    /// Restricts the server to this protocol revision. Without this call, the server supports every
    /// revision with a handshake.
    ///
    /// # Panics
    /// If the task of a connection has panicked.
    pub fn speak(&self, revision: &str) {
        *self.revision.lock().unwrap() = Some(revision.to_owned());
    }

    /// Returns the number of open connections.
    #[must_use]
    pub fn open(&self) -> usize {
        self.open.load(Ordering::SeqCst)
    }

    /// Returns the number of clients that have closed their connection with a close frame.
    #[must_use]
    pub fn close_frames(&self) -> usize {
        self.close_frames.load(Ordering::SeqCst)
    }
}

impl Drop for FakeWebSocket {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[derive(Clone)]
struct Connection {
    requests: Recorder,
    open: Arc<AtomicUsize>,
    close_frames: Arc<AtomicUsize>,
    revision: Arc<Mutex<Option<String>>>,
    subprotocol: Subprotocol,
}

/// What the server knows about one connection.
#[derive(Default)]
struct Session {
    is_forgotten: bool,
    /// Number of calls of the tool `lost` on the connection.
    lost: usize,
}

type Socket = WebSocketStream<TcpStream>;

impl Connection {
    async fn serve(self, stream: TcpStream) {
        let subprotocol = self.subprotocol;
        let requests = self.requests.clone();
        #[expect(
            clippy::result_large_err,
            reason = "it is the library's error to choose"
        )]
        let shake_hands = move |request: &Request, mut response: Response| {
            requests.add(Recorded {
                method: request.method().to_string(),
                path: request.uri().to_string(),
                headers: request.headers().clone(),
                body: Bytes::new(),
            });
            let name = match subprotocol {
                Subprotocol::Agreed => request.headers()[SEC_WEBSOCKET_PROTOCOL].clone(),
                Subprotocol::Unnamed => return Ok(response),
                Subprotocol::Another => HeaderValue::from_static("chess"),
            };
            response.headers_mut().insert(SEC_WEBSOCKET_PROTOCOL, name);
            Ok(response)
        };
        let Ok(mut socket) = tokio_tungstenite::accept_hdr_async(stream, shake_hands).await else {
            return;
        };
        self.open.fetch_add(1, Ordering::SeqCst);
        let mut session = Session::default();
        while let Some(Ok(message)) = socket.next().await {
            match message {
                Message::Text(text) => {
                    let message: Value = serde_json::from_str(&text).unwrap();
                    let revision = self.revision.lock().unwrap().clone();
                    let answered = match handshake_response(&message, revision.as_deref()) {
                        Some(response) => socket.send(Message::text(response)).await.ok(),
                        None => respond(&mut socket, &message, &mut session).await,
                    };
                    if answered.is_none() {
                        break;
                    }
                }
                Message::Close(_) => {
                    self.close_frames.fetch_add(1, Ordering::SeqCst);
                }
                _ => {}
            }
        }
        self.open.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Returns the answer of a server of one revision to the client's handshake or discovery.
fn handshake_response(message: &Value, revision: Option<&str>) -> Option<String> {
    let revision = revision?;
    let is_stateless = revision >= "2026-07-28";
    let reply = match (message["method"].as_str()?, is_stateless) {
        ("server/discover", true) => {
            Reply::result(&json!({"supportedVersions": [revision], "capabilities": {}}))
        }
        ("initialize", false) => Reply::result(&initialized(&json!(revision))),
        ("server/discover" | "initialize", _) => {
            let data = json!({"supported": [revision]});
            Reply::raw_error(&json!({"code": -32022, "message": "Unsupported", "data": data}))
        }
        _ => return None,
    };
    Some(reply.response(&message["id"].to_string()))
}

fn initialized(revision: &Value) -> Value {
    json!({
        "protocolVersion": revision,
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "fake", "version": "1"},
    })
}

/// Answers one message; `None` if the connection is closed.
async fn respond(socket: &mut Socket, message: &Value, session: &mut Session) -> Option<()> {
    let Some(id) = message.get("id").map(Value::to_string) else {
        return Some(());
    };
    let tool = message["params"]["name"].as_str();
    session.lost += usize::from(tool == Some("lost"));
    if session.is_forgotten || tool == Some("lost") {
        let text = Reply::error(-32001, "Session not found").response(&id);
        return socket.send(Message::text(text)).await.ok();
    }
    let result = match message["method"].as_str() {
        Some("initialize") => initialized(&message["params"]["protocolVersion"]),
        Some("tools/list") => json!({"tools": [{"name": "roll", "inputSchema": {}}]}),
        Some("ping") => json!({}),
        Some("tools/call") => {
            let arguments = &message["params"]["arguments"];
            match tool {
                Some("echo") => arguments.clone(),
                Some("forget") => {
                    session.is_forgotten = true;
                    json!({})
                }
                Some("count-lost") => json!(session.lost),
                Some("large") => {
                    let bytes = arguments["bytes"].as_u64().unwrap();
                    json!("x".repeat(usize::try_from(bytes).unwrap()))
                }
                Some("silent") => return Some(()),
                Some("deaf") => {
                    tokio::time::sleep(Duration::from_secs(1_000_000)).await;
                    return None;
                }
                Some("cut") => return None,
                Some("close") => {
                    let code = CloseCode::Error;
                    let reason = "out of dice".into();
                    let _ = socket.close(Some(CloseFrame { code, reason })).await;
                    return Some(());
                }
                Some("ask") => ask(socket).await?,
                Some("garbage") => {
                    for text in ["", "{", "null", "[3]", r#"{"id":99999,"result":1}"#] {
                        socket.send(Message::text(text)).await.ok()?;
                    }
                    socket.send(Message::binary(&b"\xff"[..])).await.ok()?;
                    socket.send(Message::Ping(Bytes::new())).await.ok()?;
                    json!({"total": 15, "rolls": [15]})
                }
                Some("binary") => {
                    let text = Reply::raw_result("\"binary\"").response(&id);
                    return socket.send(Message::binary(text)).await.ok();
                }
                _ => json!({"total": 15, "rolls": [15]}),
            }
        }
        _ => {
            let text = Reply::error(-32601, "Method not found").response(&id);
            return socket.send(Message::text(text)).await.ok();
        }
    };
    let text = Reply::result(&result).response(&id);
    socket.send(Message::text(text)).await.ok()
}

/// Sends a request and returns the next message.
async fn ask(socket: &mut Socket) -> Option<Value> {
    let text = r#"{"jsonrpc":"2.0","id":"q1","method":"ping"}"#;
    socket.send(Message::text(text)).await.ok()?;
    let response = socket.next().await?.ok()?;
    serde_json::from_str(response.to_text().ok()?).ok()
}
