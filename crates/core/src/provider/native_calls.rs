//! Calls of MCP tools that a provider makes itself, in a provider-independent form.

use serde_json::{Value, json};

use super::node::{Node, arguments};
use super::{Provider, ProviderError, body};
use crate::tool::{ErrorCode, ToolCall, ToolResult};

/// Calls of MCP tools that the provider makes itself ([`NativeMcpServer`](super::NativeMcpServer)),
/// as reported in a response.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct NativeCalls {
    /// Calls that need approval; [`format_permits`] formats the decisions.
    pub asked: Vec<NativeCall>,
    /// Finished calls with their results.
    pub ended: Vec<(NativeCall, ToolResult)>,
    /// Labels of the servers whose tools the provider could not list.
    pub unlisted: Vec<String>,
}

/// A call of an MCP server's tool.
#[derive(Debug, Clone, PartialEq)]
pub struct NativeCall {
    /// The label of the server.
    pub server: String,
    /// The call, with the tool's name on the server.
    pub call: ToolCall,
}

/// Parses the calls that the provider makes itself in a complete response body. Empty for providers
/// that make none.
///
/// ```
/// use pillion_core::provider::{Provider, native_calls};
/// use serde_json::json;
/// let response = json!({"output": [
///     {"type": "mcp_approval_request", "id": "mcpr_1", "server_label": "dmcp", "name": "roll",
///      "arguments": "{\"sides\":6}"},
/// ]});
/// let calls = native_calls(Provider::OpenAiResponses, &response)?;
/// assert_eq!(calls.asked[0].server, "dmcp");
/// assert_eq!(calls.asked[0].call.id, "mcpr_1");
/// # Ok::<(), pillion_core::provider::ProviderError>(())
/// ```
///
/// # Errors
/// Same as [`parse_tool_calls`](super::parse_tool_calls).
pub fn native_calls(provider: Provider, response: &Value) -> Result<NativeCalls, ProviderError> {
    let body = body(provider, response)?;
    match provider {
        Provider::OpenAiResponses => of_items(&body),
        Provider::Anthropic => of_blocks(&body),
        Provider::OpenAiChat | Provider::Google => Ok(NativeCalls::default()),
    }
}

/// Formats the decisions on calls that need approval as messages to append to the conversation: a
/// success approves the call with that id, and a failure denies it, with the error as the reason
/// for the model. Only `OpenAiResponses` requests approval.
///
/// ```
/// use pillion_core::provider::{Provider, format_permits};
/// use pillion_core::tool::ToolResult;
/// use serde_json::json;
/// let allowed = ToolResult::success("mcpr_1", "dmcp_roll", json!("may run"));
/// assert_eq!(
///     format_permits(Provider::OpenAiResponses, &[allowed]),
///     [json!({"type": "mcp_approval_response", "approval_request_id": "mcpr_1", "approve": true})],
/// );
/// ```
#[must_use]
pub fn format_permits(provider: Provider, results: &[ToolResult]) -> Vec<Value> {
    if provider != Provider::OpenAiResponses {
        return Vec::new();
    }
    let answer = |result: &ToolResult| {
        let mut answer = json!({
            "type": "mcp_approval_response",
            "approval_request_id": result.tool_call_id,
            "approve": result.success,
        });
        if let Some(error) = &result.error {
            answer["reason"] = json!(error);
        }
        answer
    };
    results.iter().map(answer).collect()
}

/// Parses OpenAI's items.
fn of_items(body: &Node<'_>) -> Result<NativeCalls, ProviderError> {
    let mut calls = NativeCalls::default();
    for item in body.required("output")?.items()? {
        match item.required("type")?.text()? {
            "mcp_approval_request" => calls.asked.push(call(&item, "server_label", "arguments")?),
            "mcp_call" => {
                let call = call(&item, "server_label", "arguments")?;
                let result = match item.optional("error")? {
                    Some(error) => failed(&call, Value::Null, &said(error.value())),
                    None => {
                        let output = item.optional("output")?;
                        ended(
                            &call,
                            output.map_or(Value::Null, |node| node.value().clone()),
                        )
                    }
                };
                calls.ended.push((call, result));
            }
            "mcp_list_tools" if item.optional("error")?.is_some() => {
                let label = item.required("server_label")?.text()?;
                calls.unlisted.push(label.to_owned());
            }
            _ => {}
        }
    }
    Ok(calls)
}

/// Parses Anthropic's blocks, in which a result follows its call. Calls without a result in this
/// response are skipped.
fn of_blocks(body: &Node<'_>) -> Result<NativeCalls, ProviderError> {
    let mut calls = NativeCalls::default();
    let mut begun = Vec::new();
    for block in body.required("content")?.items()? {
        match block.required("type")?.text()? {
            "mcp_tool_use" => begun.push(call(&block, "server_name", "input")?),
            "mcp_tool_result" => {
                let id = block.required("tool_use_id")?.text()?;
                let place = begun.iter().position(|begun| begun.call.id == id);
                let Some(call) = place.map(|place| begun.swap_remove(place)) else {
                    continue;
                };
                let content = block.optional("content")?;
                let content = content.map_or_else(|| json!([]), |node| node.value().clone());
                let is_error = block.optional("is_error")?;
                let result = json!({"content": content});
                let result = match is_error.and_then(|node| node.value().as_bool()) {
                    Some(true) => failed(&call, result, "The tool failed"),
                    _ => ended(&call, result),
                };
                calls.ended.push((call, result));
            }
            _ => {}
        }
    }
    Ok(calls)
}

fn call(node: &Node<'_>, server: &str, input: &str) -> Result<NativeCall, ProviderError> {
    Ok(NativeCall {
        server: node.required(server)?.text()?.to_owned(),
        call: ToolCall::new(
            node.required("id")?.text()?,
            node.required("name")?.text()?,
            arguments(node.optional(input)?),
        ),
    })
}

fn ended(call: &NativeCall, result: Value) -> ToolResult {
    ToolResult::success(&call.call.id, &call.call.name, result)
}

fn failed(call: &NativeCall, result: Value, message: &str) -> ToolResult {
    let NativeCall { call, .. } = call;
    let mut failure = ToolResult::failure(&call.id, &call.name, ErrorCode::InternalError, message);
    failure.result = result;
    failure
}

/// Returns the message of an error: a string, or an object with a member `message`.
fn said(error: &Value) -> String {
    match error.get("message").unwrap_or(error) {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn h1_native_calls_of_openai_are_read() {
        let response = json!({"output": [
            {"type": "mcp_list_tools", "id": "mcpl_1", "server_label": "lost", "tools": [],
             "error": {"type": "http_error", "code": 404, "message": "not found"}},
            {"type": "mcp_list_tools", "id": "mcpl_2", "server_label": "dmcp", "tools": [], "error": null},
            {"type": "mcp_call", "id": "mcp_1", "server_label": "dmcp", "name": "roll",
             "arguments": "{\"sides\":6}", "output": "4", "error": null},
            {"type": "mcp_call", "id": "mcp_2", "server_label": "dmcp", "name": "roll",
             "arguments": "{}", "output": null,
             "error": {"type": "mcp_protocol_error", "code": -32602, "message": "sides is missing"}},
            {"type": "mcp_approval_request", "id": "mcpr_1", "server_label": "dmcp", "name": "wipe",
             "arguments": "{}"},
        ]});
        let calls = native_calls(Provider::OpenAiResponses, &response).unwrap();
        assert_eq!(calls.unlisted, ["lost"]);
        let [(_, first), (_, second)] = &calls.ended[..] else {
            panic!("{:?}", calls.ended);
        };
        assert_eq!(first.content(), "4");
        assert!(!second.success);
        assert_eq!(second.error.as_deref(), Some("sides is missing"));
        assert_eq!(calls.asked.len(), 1);
        assert_eq!(calls.asked[0].call.name, "wipe");
    }

    #[test]
    fn h1_native_calls_of_anthropic_are_read() {
        let call = |id: &str| {
            json!({"type": "mcp_tool_use", "id": id, "name": "roll", "server_name": "dmcp",
                   "input": {"sides": 6}})
        };
        let response = json!({"content": [
            call("mcptoolu_1"),
            {"type": "mcp_tool_result", "tool_use_id": "mcptoolu_1", "is_error": false,
             "content": [{"type": "text", "text": "4"}]},
            call("mcptoolu_2"),
            {"type": "mcp_tool_result", "tool_use_id": "mcptoolu_2", "is_error": true,
             "content": [{"type": "text", "text": "no dice"}]},
            call("mcptoolu_3"),
        ]});
        let calls = native_calls(Provider::Anthropic, &response).unwrap();
        assert!(calls.asked.is_empty());
        let [(call, first), (_, second)] = &calls.ended[..] else {
            panic!("{:?}", calls.ended);
        };
        assert_eq!(call.server, "dmcp");
        assert_eq!(call.call.arguments, json!({"sides": 6}));
        assert_eq!(first.content(), "4");
        assert!(!second.success);
        assert!(second.content().contains("no dice"));
    }

    #[test]
    fn g3_a_denial_contains_its_reason() {
        let refused = ToolResult::failure("mcpr_1", "dmcp_wipe", ErrorCode::Denied, "not today");
        let refused = [refused];
        assert_eq!(
            format_permits(Provider::OpenAiResponses, &refused),
            [
                json!({"type": "mcp_approval_response", "approval_request_id": "mcpr_1",
                    "approve": false, "reason": "not today"})
            ]
        );
        assert!(format_permits(Provider::Anthropic, &refused).is_empty());
    }
}
