//! `/mcp`: the MCP server over HTTP.

#![expect(
    clippy::needless_pass_by_value,
    reason = "parameters are written where they are used"
)]

mod cancelling;
pub mod clients;
mod definitions;
mod empty_lists;
mod listening;
mod models;
mod names;
mod offered;
mod server_requests;
mod sessions;
mod silence;
mod stateless;
mod tools;
mod without_session;

use crate::http::Reply;
use crate::prelude::*;

pub const ACCEPT: &str = "accept: application/json, text/event-stream\r\n";

/// Returns a request as revisions with sessions have it.
pub fn request(id: impl Into<Value>, method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id.into(), "method": method, "params": params})
}

/// Returns the first request of a client with these capabilities.
pub fn hello(version: &str, capabilities: Value) -> Value {
    let client = json!({"name": "test", "version": "1"});
    let params =
        json!({"protocolVersion": version, "capabilities": capabilities, "clientInfo": client});
    request(0, "initialize", params)
}

/// Returns a call of a tool in a revision with sessions.
pub fn call_request(id: impl Into<Value>, tool: &str, arguments: Value) -> Value {
    request(
        id,
        "tools/call",
        json!({"name": tool, "arguments": arguments}),
    )
}

/// Returns the cancellation of a request.
pub fn cancellation(id: impl Into<Value>) -> Value {
    let params = json!({"requestId": id.into()});
    json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})
}

/// Returns a valid request of revision 2026-07-28, with `_meta` and headers.
pub fn stateless(method: &str, mut params: Value, capabilities: Value) -> (String, Value) {
    params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2026-07-28");
    params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = capabilities;
    let mut headers =
        format!("{ACCEPT}mcp-protocol-version: 2026-07-28\r\nmcp-method: {method}\r\n");
    if let Some(name) = params.get("name").or_else(|| params.get("uri")) {
        headers += &format!("mcp-name: {}\r\n", name.text());
    }
    let body = json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params});
    (headers, body)
}

/// Sends the request. Returns the last message of the response.
pub fn ask(socket: &Path, method: &str, params: Value) -> Value {
    let (headers, body) = stateless(method, params, json!({}));
    let reply = socket.post_with("/mcp", &headers, body.to_string());
    last(&reply)
}

/// Returns the last message of a response, which may be a stream.
pub fn last(reply: &Reply) -> Value {
    messages(reply).pop().unwrap()
}

pub fn messages(reply: &Reply) -> Vec<Value> {
    if !reply.head.contains("text/event-stream") {
        return vec![reply.json()];
    }
    let body = String::from_utf8_lossy(&reply.body);
    let events = body.lines().filter_map(|line| line.strip_prefix("data: "));
    events
        .map(|event| serde_json::from_str(event).unwrap())
        .collect()
}

/// A session of a revision before 2026-07-28.
pub struct Session<'a> {
    socket: &'a Path,
    pub headers: String,
    pub id: String,
}

impl<'a> Session<'a> {
    pub fn open(socket: &'a Path, version: &str, capabilities: Value) -> Self {
        Self::open_with(socket, version, capabilities, "")
    }

    pub fn open_with(socket: &'a Path, version: &str, capabilities: Value, more: &str) -> Self {
        let hello = hello(version, capabilities);
        let headers = format!("{ACCEPT}{more}");
        let reply = socket.post_with("/mcp", &headers, hello.to_string());
        assert_eq!(reply.json()["result"]["protocolVersion"], version);
        let id = reply
            .head
            .lines()
            .find_map(|line| line.strip_prefix("mcp-session-id: "))
            .unwrap()
            .trim()
            .to_owned();
        let headers = format!("{headers}mcp-session-id: {id}\r\n");
        Self {
            socket,
            headers,
            id,
        }
    }

    pub fn send(&self, message: &Value) -> Reply {
        self.socket
            .post_with("/mcp", &self.headers, message.to_string())
    }

    pub fn ask(&self, method: &str, params: Value) -> Value {
        let message = json!({"jsonrpc": "2.0", "id": "a", "method": method, "params": params});
        last(&self.send(&message))
    }

    /// Sends a message and reads the response as it arrives.
    pub fn stream(&self, message: &Value) -> Stream {
        Stream::open(self.socket, "POST", &self.headers, &message.to_string())
    }

    /// Opens the stream for messages that belong to no request.
    pub fn listen(&self) -> Stream {
        Stream::open(self.socket, "GET", &self.headers, "")
    }
}

/// A response that is read as it arrives.
pub struct Stream {
    lines: BufReader<UnixStream>,
}

impl Stream {
    pub fn open(socket: &Path, verb: &str, headers: &str, body: &str) -> Self {
        let headers = format!("connection: close\r\n{headers}");
        let mut lines = BufReader::new(socket.begin(verb, "/mcp", &headers, body));
        let mut status = String::new();
        lines.read_line(&mut status).unwrap();
        assert_starts_with!(status, "HTTP/1.1 200");
        Self { lines }
    }

    /// Opens a subscription of revision 2026-07-28.
    pub fn subscribe(socket: &Path, notifications: Value) -> Self {
        let (headers, body) = stateless("subscriptions/listen", notifications, json!({}));
        Self::open(socket, "POST", &headers, &body.to_string())
    }

    /// Returns the next message, or `None` at the end.
    pub fn next(&mut self) -> Option<Value> {
        loop {
            let mut line = String::new();
            if self.lines.read_line(&mut line).unwrap() == 0 {
                return None;
            }
            // A response that is not a stream is one line.
            let event = line.strip_prefix("data: ");
            if let Some(message) = event.or_else(|| line.starts_with("{\"json").then_some(&line)) {
                return Some(serde_json::from_str(message).unwrap());
            }
        }
    }
}
