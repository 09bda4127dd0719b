//! MCP servers that OpenAI calls itself.

use pillion_core::tool::{JsonObject, ToolResult};
use secrecy::ExposeSecret;
use serde_json::{Map, Value, json};

use crate::node::{JsonFault, Node};
use crate::{NativeApproval, NativeCall, NativeCalls, NativeMcpServer, find_error_message};

/// Returns the members of a request that let OpenAI call the server.
pub(super) fn members(server: &NativeMcpServer) -> JsonObject {
    let mut tool = json!({"type": "mcp", "server_label": server.label});
    if let Some(description) = &server.description {
        tool["server_description"] = json!(description);
    }
    tool["server_url"] = json!(server.url);
    if let Some(token) = &server.token {
        tool["authorization"] = json!(token.expose_secret());
    }
    if let Some(names) = &server.allowed_tools {
        tool["allowed_tools"] = json!(names);
    }
    tool["require_approval"] = match &server.require_approval {
        NativeApproval::Never => json!("never"),
        NativeApproval::Always => json!("always"),
        NativeApproval::Except(names) => json!({"never": {"tool_names": names}}),
    };
    Map::from_iter([("tools".to_owned(), json!([tool]))])
}

/// Parses the calls of MCP tools among a response's output items: calls that OpenAI made itself,
/// and calls for which OpenAI requests approval.
pub(super) fn parse_calls(body: &Node<'_>) -> Result<NativeCalls, JsonFault> {
    let mut calls = NativeCalls::default();
    let parse = |item: &Node<'_>| NativeCall::parse(item, "server_label", "arguments");
    for item in body.required("output")?.items()? {
        match item.required("type")?.text()? {
            "mcp_approval_request" => calls.permission_requests.push(parse(&item)?),
            "mcp_call" => {
                let call = parse(&item)?;
                let result = match item.optional("error")? {
                    Some(error) => call.to_failure(Value::Null, &find_error_message(error.value())),
                    None => {
                        let output = item.optional("output")?;
                        call.to_success(output.map_or(Value::Null, |node| node.value().clone()))
                    }
                };
                calls.finished_calls.push((call, result));
            }
            "mcp_list_tools" if item.optional("error")?.is_some() => {
                let label = item.required("server_label")?.text()?;
                calls.unlisted_servers.push(label.to_owned());
            }
            _ => {}
        }
    }
    Ok(calls)
}

/// Formats the decision on a call for which OpenAI requested approval.
pub(super) fn format_permit(result: &ToolResult) -> Value {
    let mut response = json!({
        "type": "mcp_approval_response",
        "approval_request_id": result.tool_call_id,
        "approve": result.success,
    });
    if let Some(error) = &result.error {
        response["reason"] = json!(error);
    }
    response
}
