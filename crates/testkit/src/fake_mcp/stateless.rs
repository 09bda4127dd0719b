use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::header::CONTENT_TYPE;
use serde_json::{Value, json};

use super::server::{Server, event_stream};
use crate::{Recorded, Reply};

const VERSION: &str = "2026-07-28";

/// Answers a request as a server of revision 2026-07-28.
pub(super) async fn handle(server: &Server, request: &Recorded) -> Response {
    let message: Value = request.json();
    let id = message["id"].to_string();
    let method = message["method"].as_str().unwrap_or_default();
    if let Err(rejection) = check(request, method, &message["params"]) {
        return respond(StatusCode::BAD_REQUEST, rejection.response(&id));
    }
    if method == "subscriptions/listen" {
        let acknowledged = json!({
            "jsonrpc": "2.0",
            "method": "notifications/subscriptions/acknowledged",
            "params": {
                "_meta": {"io.modelcontextprotocol/subscriptionId": message["id"]},
                "notifications": message["params"]["notifications"],
            },
        });
        let first = |_: &str| format!("data: {acknowledged}\n\n");
        return event_stream(server.open_stream_with(first));
    }
    let reply = server.reply(method, &message["params"]);
    tokio::time::sleep(reply.delay).await;
    if !reply.before.is_empty() {
        let messages = reply.before.iter().cloned().chain([reply.response(&id)]);
        let events: String = messages.map(|text| format!("data: {text}\n\n")).collect();
        return ([(CONTENT_TYPE, "text/event-stream")], events).into_response();
    }
    respond(reply.status(), reply.response(&id))
}

/// Checks the headers and `_meta` that every request must have.
fn check(request: &Recorded, method: &str, params: &Value) -> Result<(), Reply> {
    let mismatch = |what: &str| Err(Reply::error(-32020, &format!("Header mismatch: {what}")));
    let meta = &params["_meta"];
    let revision = &meta["io.modelcontextprotocol/protocolVersion"];
    if !revision.is_string() || !meta["io.modelcontextprotocol/clientCapabilities"].is_object() {
        return Err(Reply::error(-32602, "Missing _meta"));
    }
    if request.header("mcp-protocol-version") != revision {
        return mismatch("MCP-Protocol-Version");
    }
    if revision != VERSION {
        let data = json!({"supported": [VERSION], "requested": revision});
        let error = json!({"code": -32022, "message": "Unsupported", "data": data});
        return Err(Reply::raw_error(&error));
    }
    if request.header("mcp-method") != method {
        return mismatch("Mcp-Method");
    }
    let name = match method {
        "tools/call" | "prompts/get" => &params["name"],
        "resources/read" => &params["uri"],
        _ => return Ok(()),
    };
    if request.header("mcp-name") != name {
        return mismatch("Mcp-Name");
    }
    Ok(())
}

fn respond(status: StatusCode, response: String) -> Response {
    (status, [(CONTENT_TYPE, "application/json")], response).into_response()
}
