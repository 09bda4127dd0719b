//! `tools/list` and `tools/call`: all tools of the registry, run by the executor.

use std::collections::HashMap;
use std::sync::Arc;

use pillion_core::compute::{self, MAX_INLINE_BYTES};
use pillion_core::executor::{CompletedCall, ResolvedCall};
use pillion_core::registry::RegisteredTool;
use pillion_core::tool::{self, CallContext, ErrorCode, ServerResponse, ToolCall, ToolResult};
use pillion_mcp_client::{
    EntryKind, ProtocolVersion, RpcError, as_call_tool_result, param_header_mismatch,
};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::{Caller, results};
use crate::catalog::compute_account;
use pillion_gateway::calling_client::link::ClientLink;
use pillion_gateway::calling_client::message::{self, INTERNAL_ERROR, Request, invalid_params};
use pillion_gateway::upstream::{CallerTools, UpstreamTool};
use pillion_gateway::{Gateway, MissingTool, NameScope};

/// Maximum number of tools whose list is serialized on the current thread.
const MAX_INLINE_TOOLS: usize = 200;

/// A tool under the name that clients see.
struct ExposedTool {
    name: String,
    tool: Arc<RegisteredTool>,
    /// The tool as its server listed it, if the tool belongs to an MCP server.
    upstream_tool: Option<Arc<UpstreamTool>>,
}

/// Returns all tools with the names that clients see, in the registry's order. A server's tool has
/// the name that the server gave it if the configuration sets no prefix for the server, and no
/// other tool has or may get this name. Any other tool has its registered name.
fn expose_tools(gateway: &Gateway, user_tools: &CallerTools) -> Vec<ExposedTool> {
    let upstreams = gateway.upstreams();
    let mut server_tools = upstreams.tools();
    server_tools.extend(
        user_tools
            .listed_tools
            .iter()
            .map(|(name, tool)| (name.clone(), Arc::clone(tool))),
    );
    let mut registered_tools = gateway.registry().tools(None);
    upstreams.sort_by_config(&mut registered_tools);
    registered_tools.extend(user_tools.tools.values().cloned());
    let preferred_names: Vec<_> = registered_tools
        .iter()
        .map(|tool| {
            let name = tool.name();
            let allows_unprefixed_name = |server_tool: &UpstreamTool| {
                if user_tools.listed_tools.contains_key(name) {
                    user_tools.allows_unprefixed_name(upstreams, server_tool)
                } else {
                    upstreams.allows_unprefixed_name(server_tool)
                }
            };
            match server_tools.get(name) {
                Some(server_tool) if allows_unprefixed_name(server_tool) => {
                    server_tool.remote_name()
                }
                _ => name.as_str(),
            }
        })
        .collect();
    let mut name_counts: HashMap<&str, usize> = HashMap::new();
    for name in &preferred_names {
        *name_counts.entry(name).or_default() += 1;
    }
    let exposed_tools = registered_tools
        .iter()
        .zip(&preferred_names)
        .map(|(tool, name)| {
            let is_free =
                name_counts.get(name) == Some(&1) && !user_tools.tools.contains_key(*name);
            let name = if is_free { *name } else { tool.name().as_str() };
            ExposedTool {
                name: name.to_owned(),
                tool: Arc::clone(tool),
                upstream_tool: server_tools.get(tool.name()).cloned(),
            }
        });
    exposed_tools.collect()
}

/// Returns the `ListToolsResult`. The tools of unreachable servers are missing until a later list.
pub(super) async fn list(
    caller: &Caller,
    version: ProtocolVersion,
) -> Result<Box<RawValue>, RpcError> {
    let gateway = &caller.mcp.gateway;
    let timeout = gateway.upstreams().list_timeout();
    let (_, user_tools) = gateway.list_servers(timeout, &caller.context).await;
    let count = gateway.registry().len() + user_tools.tools.len();
    let user_tool_bytes = user_tools
        .listed_tools
        .values()
        .map(|tool| tool.listed_bytes());
    let listed_bytes = gateway.upstreams().listed_bytes() + user_tool_bytes.sum::<usize>();
    if count <= MAX_INLINE_TOOLS && listed_bytes <= compute::MAX_INLINE_BYTES {
        return write_list(caller, version, &user_tools);
    }
    let thread_caller = caller.clone();
    let write_task = move || write_list(&thread_caller, version, &user_tools);
    compute::run(&compute_account(caller), usize::MAX, write_task).await
}

fn write_list(
    caller: &Caller,
    version: ProtocolVersion,
    user_tools: &CallerTools,
) -> Result<Box<RawValue>, RpcError> {
    let mut tools = Vec::new();
    for ExposedTool {
        name,
        tool,
        upstream_tool,
    } in expose_tools(&caller.mcp.gateway, user_tools)
    {
        if !caller.visibility.admits(&tool, &name) {
            continue;
        }
        let entry = match upstream_tool {
            Some(upstream_tool) => upstream_tool.to_entry(&name, version),
            None => match caller.mcp.gateway.workers().tool(tool.name()) {
                Some(worker) => worker.to_entry(version),
                None => match create_native_entry(&name, &tool) {
                    Some(entry) => Ok(entry),
                    None => continue,
                },
            },
        };
        tools.push(entry.map_err(|error| RpcError::new(INTERNAL_ERROR, error.to_string()))?);
    }
    message::raw_list("tools", &tools)
}

/// Returns the `tools/list` entry of a tool that belongs to no MCP server, or `None`, with a
/// warning, if clients could not read the entry.
fn create_native_entry(name: &str, tool: &RegisteredTool) -> Option<Box<RawValue>> {
    let definition = tool.definition();
    let mut entry = json!({
        "name": name,
        "description": definition.description(),
        "inputSchema": definition.input_schema(),
    });
    if !definition.annotations().is_empty() {
        entry["annotations"] = json!(definition.annotations());
    }
    let entry_json = message::raw(&entry).ok()?;
    match EntryKind::Tool.check(&entry_json) {
        Ok(checked_entry) => Some(checked_entry.entry),
        Err(error) => {
            tracing::warn!(
                tool.name = name, %error,
                "Cannot list a tool for MCP clients: its definition is invalid"
            );
            None
        }
    }
}

/// Returns the tool result for a call of an unavailable tool that the client may see. The text of
/// the result explains why the tool is unavailable.
///
/// # Errors
/// No tool has this name, or the client may not see the tool. Both cases give the same error, so
/// that the error does not reveal the tool.
fn create_missing_result(tool: &MissingTool, name: &str) -> Result<Box<RawValue>, RpcError> {
    let mut result = json!({"isError": true});
    let text = match tool {
        MissingTool::NoCredential(failure) => failure.message.clone(),
        MissingTool::Blocked(blocked_tool) => blocked_tool.reason(name),
        MissingTool::Unavailable(unavailable) => {
            result["_meta"]["pillion/error_code"] = json!(ErrorCode::Unavailable.as_str());
            unavailable.reason(name)
        }
        MissingTool::Unknown => return Err(message::unknown_item_error("tool", name)),
    };
    result["content"] = json!([{"type": "text", "text": text}]);
    message::raw(&result)
}

/// Calls a tool and returns the `CallToolResult`. The result of an MCP server is returned
/// unchanged; any other result is converted.
pub(super) async fn call(
    caller: &Caller,
    request: &Request,
    link: &Arc<ClientLink>,
) -> Result<Box<RawValue>, RpcError> {
    let name = request.text("name")?;
    let arguments = match request.params.get("arguments") {
        None => json!({}),
        Some(arguments) => match parse_arguments(arguments, caller).await {
            Ok(arguments @ Value::Object(_)) => arguments,
            Err(error) => return Err(message::invalid_param_error("arguments", &error)),
            _ => return Err(invalid_params("'arguments' must be an object")),
        },
    };
    let (context, visibility) = (&caller.context, &caller.visibility);
    let names = [name.as_str()];
    let gateway = &caller.mcp.gateway;
    let resolve_future = gateway.resolve(context, visibility, NameScope::ListedToClients, &names);
    let mut resolution = resolve_future.await;
    let tool = match resolution.take_only() {
        Ok(tool) => tool,
        Err(missing_tool) => return create_missing_result(&missing_tool, &name),
    };
    if let Some(headers) = &link.requester.param_headers {
        let schema = tool.definition().input_schema();
        let header = |name: &str| headers.get(name).cloned();
        if let Some(mismatch) = param_header_mismatch(schema, &arguments, header) {
            return Err(message::header_mismatch(&mismatch));
        }
    }
    let context = CallContext {
        may_use: Some(caller.visibility.filter()),
        variant: link.params_digest(),
        link: Some(tool::Link::new(Arc::clone(link))),
        trace: link.trace().cloned(),
        ..caller.context.clone()
    };
    let id = uuid::Uuid::now_v7().to_string();
    let executor = resolution.executor(gateway);
    let wait_time = resolution.duration;
    drop(resolution);
    let resolved_call = ResolvedCall {
        call: ToolCall::new(id, tool.name().as_str(), arguments),
        tool: Some(Arc::clone(&tool)),
        wait_time,
    };
    let CompletedCall {
        result, response, ..
    } = executor.execute_resolved(resolved_call, &context).await;
    let (is_mcp, metadata) = (tool.origin().is_mcp(), &result.metadata);
    let note = result.note();
    let approved_arguments = metadata.get(ToolResult::APPROVED_ARGUMENTS).cloned();
    if let Some(stored_result) = metadata.get("stored_result") {
        let mut truncated_result = translate_result(&result, is_mcp);
        results::add_link(&mut truncated_result, stored_result, link.requester.version);
        return message::raw(&truncated_result);
    }
    let is_cached = metadata.contains_key("cached");
    let result_json = match response {
        Some(ServerResponse::Result(result_json)) if !result.result.is_null() => {
            // A worker's result is returned unchanged, because it is already a valid
            // `CallToolResult`. A task is returned unchanged, because the client requested a task.
            if is_mcp && !request.params.contains_key("task") {
                to_readable_result(result_json, result.result, link.requester.version)
            } else {
                Ok(result_json)
            }
        }
        Some(ServerResponse::Error(error)) => Err(serde_json::from_str(error.get())
            .unwrap_or_else(|error| RpcError::new(INTERNAL_ERROR, error.to_string()))),
        // A cached result of a server is returned in the same form as a new result.
        None if result.success && is_mcp && (is_cached || result.result.is_object()) => {
            let result_json = message::raw(&result.result)?;
            to_readable_result(result_json, result.result, link.requester.version)
        }
        _ => return message::raw(&translate_result(&result, is_mcp)),
    }?;
    match (note, approved_arguments) {
        (Some(note), Some(arguments)) => add_note(&result_json, &note, arguments),
        _ => Ok(result_json),
    }
}

/// Parses the arguments of a call. Long arguments are parsed on another thread, which is shared
/// fairly among callers.
async fn parse_arguments(arguments: &RawValue, caller: &Caller) -> serde_json::Result<Value> {
    let argument_bytes = arguments.get().len();
    if argument_bytes <= MAX_INLINE_BYTES {
        return serde_json::from_str(arguments.get());
    }
    let arguments = arguments.to_owned();
    let parse = move || serde_json::from_str(arguments.get());
    compute::run(&compute_account(caller), argument_bytes, parse).await
}

/// Adds to a server's result the arguments that an approver has changed: in a text block for the
/// model, and in `_meta` for programs.
fn add_note(
    result_json: &RawValue,
    note: &str,
    arguments: Value,
) -> Result<Box<RawValue>, RpcError> {
    let mut result: Value = serde_json::from_str(result_json.get())
        .map_err(|error| RpcError::new(INTERNAL_ERROR, error.to_string()))?;
    if let Some(content) = result.get_mut("content").and_then(Value::as_array_mut) {
        content.push(json!({"type": "text", "text": note}));
    }
    if result.is_object() {
        result["_meta"][APPROVED_ARGUMENTS_META] = arguments;
    }
    message::raw(&result)
}

/// The key in `_meta` under which a result contains the arguments that an approver has changed.
const APPROVED_ARGUMENTS_META: &str = "pillion/approved_arguments";

/// Converts a server's result to a `CallToolResult` that clients of `version` can read.
fn to_readable_result(
    result_json: Box<RawValue>,
    value: Value,
    version: ProtocolVersion,
) -> Result<Box<RawValue>, RpcError> {
    as_call_tool_result(result_json, value, version)
        .map_err(|error| RpcError::new(INTERNAL_ERROR, error.to_string()))
}

/// Converts a result to a `CallToolResult` with text for the model, and the envelope `{"ok": ...,
/// "data": ...}` in `structuredContent` for programs. The result of an MCP server's tool gets no
/// envelope, because the tool may declare its own output schema. The error code of such a result is
/// in `_meta`.
fn translate_result(result: &ToolResult, is_mcp: bool) -> Value {
    let text = match &result.error {
        Some(error) if !result.success => match result.note() {
            Some(note) => format!("{error}\n\n{note}"),
            None => error.clone(),
        },
        _ => result.to_message(),
    };
    let mut call_tool_result = json!({
        "content": [{"type": "text", "text": text}],
        "isError": !result.success,
    });
    if let Some(id) = result.metadata.get("approval_id") {
        call_tool_result["_meta"]["pillion/approval_id"] = json!(id);
    }
    if let Some(arguments) = result.metadata.get(ToolResult::APPROVED_ARGUMENTS) {
        call_tool_result["_meta"][APPROVED_ARGUMENTS_META] = arguments.clone();
    }
    let code = result.error_code.map(pillion_core::tool::ErrorCode::as_str);
    if !is_mcp {
        call_tool_result["structuredContent"] = if result.success {
            let data = result.data.as_ref().unwrap_or(&result.result);
            json!({"ok": true, "data": data})
        } else {
            json!({"ok": false, "error": {"code": code, "message": text}})
        };
    } else if let Some(code) = code {
        call_tool_result["_meta"]["pillion/error_code"] = json!(code);
    }
    call_tool_result
}
