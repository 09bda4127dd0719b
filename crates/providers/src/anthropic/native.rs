//! Anthropic's MCP connector.

use pillion_core::tool::JsonObject;
use secrecy::ExposeSecret;
use serde_json::{Map, Value, json};

use crate::node::{JsonFault, Node};
use crate::{NativeApproval, NativeCall, NativeCalls, NativeMcpServer};

/// Returns the members of a request that let Anthropic call the server; `None` if the configuration
/// requires approval of calls, which Anthropic never requests.
pub(super) fn members(server: &NativeMcpServer) -> Option<JsonObject> {
    if server.require_approval != NativeApproval::Never {
        return None;
    }
    let mut connection = json!({"type": "url", "name": server.label, "url": server.url});
    if let Some(token) = &server.token {
        connection["authorization_token"] = json!(token.expose_secret());
    }
    let mut toolset = json!({"type": "mcp_toolset", "mcp_server_name": server.label});
    if let Some(names) = &server.allowed_tools {
        let to_config = |name: &String| (name.clone(), json!({"enabled": true}));
        toolset["default_config"] = json!({"enabled": false});
        toolset["configs"] = Value::Object(names.iter().map(to_config).collect());
    }
    Some(Map::from_iter([
        ("mcp_servers".to_owned(), json!([connection])),
        ("tools".to_owned(), json!([toolset])),
    ]))
}

/// Parses the calls in the blocks of a response, in which a result follows its call. Calls without
/// a result in this response are skipped.
pub(super) fn parse_calls(body: &Node<'_>) -> Result<NativeCalls, JsonFault> {
    let mut calls = NativeCalls::default();
    let mut open_calls: Vec<NativeCall> = Vec::new();
    for block in body.required("content")?.items()? {
        match block.required("type")?.text()? {
            "mcp_tool_use" => open_calls.push(NativeCall::parse(&block, "server_name", "input")?),
            "mcp_tool_result" => {
                let id = block.required("tool_use_id")?.text()?;
                let index = open_calls.iter().position(|open| open.call.id == id);
                let Some(call) = index.map(|index| open_calls.swap_remove(index)) else {
                    continue;
                };
                let blocks = block.optional("content")?;
                let content = blocks.map_or_else(|| json!([]), |node| node.value().clone());
                let is_error = block.optional("is_error")?;
                let mcp_result = json!({"content": content});
                let result = match is_error.and_then(|node| node.value().as_bool()) {
                    Some(true) => call.to_failure(mcp_result, "The tool reported a failure"),
                    _ => call.to_success(mcp_result),
                };
                calls.finished_calls.push((call, result));
            }
            _ => {}
        }
    }
    Ok(calls)
}
