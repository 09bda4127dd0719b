use std::io::{BufReader, Write};

use serde_json::{Value, json};

use crate::http;
use crate::mcp_server::read_request;

/// The response of a hostile server.
pub struct HostileReply {
    /// The status line and the headers, without the length.
    pub head: String,
    pub body: String,
}

impl HostileReply {
    /// Creates a JSON-RPC response to the request with `members`, which are raw JSON.
    pub fn rpc(request: &Value, members: &str) -> Self {
        Self {
            head: "HTTP/1.1 200 OK\r\ncontent-type: application/json".to_owned(),
            body: format!(r#"{{"jsonrpc":"2.0","id":{},{members}}}"#, request["id"]),
        }
    }

    /// Creates the response of a correct server with all capabilities and one tool `echo`.
    pub fn well(request: &Value) -> Self {
        let result = match request["method"].as_str().unwrap_or_default() {
            "initialize" => json!({
                "protocolVersion": "2025-06-18",
                "capabilities": {"tools": {}, "resources": {}, "prompts": {}, "completions": {}},
                "serverInfo": {"name": "fake", "version": "1"},
            }),
            "tools/list" => json!({"tools": [
                {"name": "echo", "inputSchema": {"type": "object"}},
            ]}),
            "tools/call" => json!({"content": [{"type": "text", "text": "called"}]}),
            "resources/list" => json!({"resources": []}),
            "resources/templates/list" => json!({"resourceTemplates": []}),
            "resources/read" => json!({"contents": [{"uri": "a:1", "text": "read"}]}),
            "prompts/list" => json!({"prompts": []}),
            "prompts/get" => json!({"messages": []}),
            "completion/complete" => json!({"completion": {"values": []}}),
            _ => json!({}),
        };
        Self::rpc(request, &format!(r#""result":{result}"#))
    }
}

/// Starts an MCP server over HTTP that responds to requests as a test chooses. Returns its URL.
pub fn start(reply: impl Fn(&Value) -> HostileReply + Send + Sync + 'static) -> String {
    let address = http::serve(move |mut writer| {
        let mut reader = BufReader::new(writer.try_clone().unwrap());
        while let Some((verb, _, body)) = read_request(&mut reader) {
            let request: Value = serde_json::from_slice(&body).unwrap_or_default();
            let HostileReply { head, body } = match verb.as_str() {
                "POST" if !request["id"].is_null() => reply(&request),
                "POST" => empty("202 Accepted"),
                _ => empty("405 Method Not Allowed"),
            };
            let head = format!("{head}\r\ncontent-length: {}\r\n\r\n", body.len());
            let is_sent = writer.write_all(head.as_bytes()).is_ok()
                && writer.write_all(body.as_bytes()).is_ok();
            if !is_sent {
                break;
            }
        }
    });
    format!("http://{address}/mcp")
}

fn empty(status: &str) -> HostileReply {
    HostileReply {
        head: format!("HTTP/1.1 {status}"),
        body: String::new(),
    }
}
