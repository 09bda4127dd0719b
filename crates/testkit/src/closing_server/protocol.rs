use serde_json::{Value, json};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

use super::ClosingRules;

/// A redirect within the origin, for a POST.
pub(super) const REDIRECT: &[u8] = b"HTTP/1.1 307 Temporary Redirect\r\nLocation: /mcp?b\r\n\
    Connection: close\r\nContent-Length: 0\r\n\r\n";

/// An HTTP request.
pub(super) struct Request {
    pub(super) method: String,
    /// The body as JSON; null if there is none.
    pub(super) body: Value,
}

/// Reads one request; `None` at the end of the connection.
pub(super) async fn read_request(stream: &mut TcpStream, unread: &mut Vec<u8>) -> Option<Request> {
    loop {
        let head_end = unread.windows(4).position(|four| four == b"\r\n\r\n");
        if let Some(head_end) = head_end {
            let head = String::from_utf8_lossy(&unread[..head_end]).to_lowercase();
            let length = head
                .lines()
                .find_map(|line| line.strip_prefix("content-length: "))
                .map_or(0, |length| length.trim().parse().unwrap());
            let body = head_end + 4;
            if unread.len() >= body + length {
                let method = head.split(' ').next()?.to_uppercase();
                let json = serde_json::from_slice(&unread[body..body + length]);
                unread.drain(..body + length);
                let body = json.unwrap_or_default();
                return Some(Request { method, body });
            }
        }
        if stream.read_buf(unread).await.ok()? == 0 {
            return None;
        }
    }
}

/// Returns the HTTP response to a request.
pub(super) fn response(request: &Request, rules: &ClosingRules) -> Vec<u8> {
    if request.method != "POST" {
        let status = if request.method == "DELETE" {
            "200 OK"
        } else {
            "405 Method Not Allowed"
        };
        return http(status, "text/plain", "");
    }
    let message = &request.body;
    if message["id"].is_null() {
        return http("202 Accepted", "text/plain", "");
    }
    let mut reply = json!({"jsonrpc": "2.0", "id": message["id"]});
    match result(message, rules.stateless) {
        Some(mut result) => {
            if rules.stateless {
                result["resultType"] = "complete".into();
            }
            reply["result"] = result;
        }
        None => reply["error"] = json!({"code": -32601, "message": "Method not found"}),
    }
    if rules.streams {
        http("200 OK", "text/event-stream", &format!("data: {reply}\n\n"))
    } else {
        http("200 OK", "application/json", &reply.to_string())
    }
}

fn result(message: &Value, is_stateless: bool) -> Option<Value> {
    let server = json!({"name": "closing", "version": "1"});
    let capabilities = json!({"tools": {}, "prompts": {}, "resources": {}, "logging": {}});
    let text = |text: &str| json!([{"type": "text", "text": text}]);
    Some(match message["method"].as_str()? {
        "server/discover" if is_stateless => json!({
            "supportedVersions": ["2026-07-28"], "capabilities": capabilities, "serverInfo": server,
        }),
        "initialize" if !is_stateless => json!({
            "protocolVersion": "2025-11-25", "capabilities": capabilities, "serverInfo": server,
        }),
        "ping" | "logging/setLevel" | "resources/subscribe" if !is_stateless => json!({}),
        "tools/list" => json!({"tools": [{"name": "work", "inputSchema": {"type": "object"}}]}),
        "tools/call" => json!({"content": text("done")}),
        "prompts/list" => json!({"prompts": [{"name": "greet"}]}),
        "prompts/get" => json!({"messages": []}),
        "resources/list" => json!({"resources": [{"name": "a", "uri": "a:b"}]}),
        "resources/templates/list" => json!({"resourceTemplates": []}),
        "resources/read" => json!({"contents": [{"uri": "a:b", "text": "c"}]}),
        "completion/complete" => json!({"completion": {"values": []}}),
        _ => return None,
    })
}

fn http(status: &str, content_type: &str, body: &str) -> Vec<u8> {
    let session = "Mcp-Session-Id: s1\r\n";
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\n{session}Content-Length: {length}\r\n\r\n"
    );
    format!("{head}{body}").into_bytes()
}
