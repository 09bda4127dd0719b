use serde_json::{Value, json};

use super::ClosingRules;
use crate::fault_server::http_response;
use crate::{Recorded, Reply};

/// Returns the HTTP response to a request.
pub(super) fn response(request: &Recorded, rules: &ClosingRules) -> Vec<u8> {
    let message = request.json();
    let (status, content_type, body) = match request.method.as_str() {
        "DELETE" => ("200 OK", "text/plain", String::new()),
        "POST" if message["id"].is_null() => ("202 Accepted", "text/plain", String::new()),
        "POST" => {
            let reply = match result(&message, rules.stateless) {
                Some(mut result) => {
                    if rules.stateless {
                        result["resultType"] = "complete".into();
                    }
                    Reply::result(&result)
                }
                None => Reply::error(-32601, "Method not found"),
            };
            let body = reply.response(&request.rpc_id());
            if rules.streams {
                ("200 OK", "text/event-stream", format!("data: {body}\n\n"))
            } else {
                ("200 OK", "application/json", body)
            }
        }
        _ => ("405 Method Not Allowed", "text/plain", String::new()),
    };
    let headers = [("Content-Type", content_type), ("Mcp-Session-Id", "s1")];
    http_response(status, &headers, body.as_bytes())
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
