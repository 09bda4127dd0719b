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
use pillion_gateway::upstream::{Own, UpstreamTool};
use pillion_gateway::{Gateway, MissingTool, NameScope};

/// Maximum number of tools whose list is serialized on the current thread.
const MAX_INLINE_TOOLS: usize = 200;

/// A tool under the name that clients see.
struct ExposedTool {
    name: String,
    tool: Arc<RegisteredTool>,
    /// The tool as its server listed it, if the tool belongs to an MCP server.
    listed: Option<Arc<UpstreamTool>>,
}

/// Returns all tools with the names that clients see, in the registry's order. A tool of a server
/// without a configured prefix has the server's name for the tool if no other tool has the name or
/// could have it; all other tools have their registered names.
fn exposed(gateway: &Gateway, own: &Own) -> Vec<ExposedTool> {
    let upstreams = gateway.upstreams();
    let mut server_tools = upstreams.tools();
    server_tools.extend(
        own.listed
            .iter()
            .map(|(name, tool)| (name.clone(), Arc::clone(tool))),
    );
    let mut registered = gateway.registry().tools(None);
    upstreams.sort_by_config(&mut registered);
    registered.extend(own.tools.values().cloned());
    let preferred_names: Vec<_> = registered
        .iter()
        .map(|tool| {
            let name = tool.name();
            let allows_own_name = |server_tool: &UpstreamTool| {
                if own.listed.contains_key(name) {
                    own.allows_own_name(upstreams, server_tool)
                } else {
                    upstreams.allows_own_name(server_tool)
                }
            };
            match server_tools.get(name) {
                Some(server_tool) if allows_own_name(server_tool) => server_tool.remote_name(),
                _ => name.as_str(),
            }
        })
        .collect();
    let mut name_counts: HashMap<&str, usize> = HashMap::new();
    for name in &preferred_names {
        *name_counts.entry(name).or_default() += 1;
    }
    let named = registered.iter().zip(&preferred_names).map(|(tool, name)| {
        let is_free = name_counts.get(name) == Some(&1) && !own.tools.contains_key(*name);
        ExposedTool {
            name: if is_free { *name } else { tool.name().as_str() }.to_owned(),
            tool: Arc::clone(tool),
            listed: server_tools.get(tool.name()).cloned(),
        }
    });
    named.collect()
}

/// Returns the `ListToolsResult`. The tools of unreachable servers are missing until a later list.
pub(super) async fn list(
    caller: &Caller,
    version: ProtocolVersion,
) -> Result<Box<RawValue>, RpcError> {
    let gateway = &caller.mcp.gateway;
    let limit = gateway.upstreams().list_timeout();
    let (_, own) = gateway.list_servers(limit, &caller.context).await;
    let count = gateway.registry().len() + own.tools.len();
    let user_tool_bytes = own.listed.values().map(|tool| tool.listed_bytes());
    let bytes = gateway.upstreams().listed_bytes() + user_tool_bytes.sum::<usize>();
    if count <= MAX_INLINE_TOOLS && bytes <= compute::MAX_INLINE_BYTES {
        return written_list(caller, version, &own);
    }
    let thread_caller = caller.clone();
    let write = move || written_list(&thread_caller, version, &own);
    compute::run(&compute_account(caller), usize::MAX, write).await
}

fn written_list(
    caller: &Caller,
    version: ProtocolVersion,
    own: &Own,
) -> Result<Box<RawValue>, RpcError> {
    let mut tools = Vec::new();
    for ExposedTool { name, tool, listed } in exposed(&caller.mcp.gateway, own) {
        if !caller.visibility.admits(&tool, &name) {
            continue;
        }
        let entry = match listed {
            Some(listed) => listed.listed_as(&name, version),
            None => match caller.mcp.gateway.workers().listed(tool.name()) {
                Some(worker) => worker.listed_for(version),
                None => match native(&name, &tool) {
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
fn native(name: &str, tool: &RegisteredTool) -> Option<Box<RawValue>> {
    let definition = tool.definition();
    let mut entry = json!({
        "name": name,
        "description": definition.description(),
        "inputSchema": definition.input_schema(),
    });
    if !definition.annotations().is_empty() {
        entry["annotations"] = json!(definition.annotations());
    }
    let checked = message::raw(&entry).ok()?;
    match EntryKind::Tool.check(&checked) {
        Ok(checked) => Some(checked.entry),
        Err(error) => {
            tracing::warn!(
                tool.name = name, %error,
                "Cannot list a tool for MCP clients: its definition is invalid"
            );
            None
        }
    }
}

/// Returns the result of a call to a tool that the client does not have. The result does not reveal
/// a tool that the client may not see.
///
/// # Errors
/// There is no such tool.
fn missing_result(missing: &MissingTool, name: &str) -> Result<Box<RawValue>, RpcError> {
    let mut result = json!({"isError": true});
    let text = match missing {
        MissingTool::NoCredential(failure) => failure.message.clone(),
        MissingTool::Blocked(blocked) => blocked.reason(name),
        MissingTool::Unavailable(absent) => {
            result["_meta"]["pillion/error_code"] = json!(ErrorCode::Unavailable.as_str());
            absent.reason(name)
        }
        MissingTool::Unknown => return Err(message::unknown("tool", name)),
    };
    result["content"] = json!([{"type": "text", "text": text}]);
    message::raw(&result)
}

/// Calls a tool and returns the `CallToolResult`: a server's result unchanged, any other result
/// translated.
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
            Err(error) => return Err(message::unreadable("arguments", &error)),
            _ => return Err(invalid_params("'arguments' must be an object")),
        },
    };
    let (context, visibility) = (&caller.context, &caller.visibility);
    let names = [name.as_str()];
    let gateway = &caller.mcp.gateway;
    let mut resolution = gateway
        .resolve(context, visibility, NameScope::ListedToClients, &names)
        .await;
    let tool = match resolution.take_only() {
        Ok(tool) => tool,
        Err(missing) => return missing_result(&missing, &name),
    };
    if let Some(headers) = &link.requester.param_headers {
        let schema = tool.definition().input_schema();
        let header = |name: &str| headers.get(name).cloned();
        if let Some(header) = param_header_mismatch(schema, &arguments, header) {
            return Err(message::header_mismatch(&header));
        }
    }
    let context = CallContext {
        may_use: Some(caller.visibility.filter()),
        variant: link.variant(),
        link: Some(tool::Link::new(Arc::clone(link))),
        trace: link.trace().cloned(),
        ..caller.context.clone()
    };
    let id = uuid::Uuid::now_v7().to_string();
    let executor = resolution.executor(gateway);
    let waited = resolution.took;
    drop(resolution);
    let CompletedCall {
        result, response, ..
    } = executor
        .execute_resolved(
            ResolvedCall {
                call: ToolCall::new(id, tool.name().as_str(), arguments),
                tool: Some(Arc::clone(&tool)),
                waited,
            },
            &context,
        )
        .await;
    let (is_mcp, metadata) = (tool.origin().is_mcp(), &result.metadata);
    let note = result.note();
    let approved_arguments = metadata.get(ToolResult::APPROVED_ARGUMENTS).cloned();
    if let Some(stored_result) = metadata.get("stored_result") {
        let mut beginning = translated(&result, is_mcp);
        results::add_link(&mut beginning, stored_result, link.requester.version);
        return message::raw(&beginning);
    }
    let is_cached = metadata.contains_key("cached");
    let written = match response {
        Some(ServerResponse::Result(written)) if !result.result.is_null() => {
            // A worker's result is already a valid `CallToolResult`, and a task is the result that
            // the client requested.
            if is_mcp && !request.params.contains_key("task") {
                readable(written, result.result, link.requester.version)
            } else {
                Ok(written)
            }
        }
        Some(ServerResponse::Error(error)) => Err(serde_json::from_str(error.get())
            .unwrap_or_else(|error| RpcError::new(INTERNAL_ERROR, error.to_string()))),
        // A cached result of a server is returned in the same form as a new result.
        None if result.success && is_mcp && (is_cached || result.result.is_object()) => {
            let written = message::raw(&result.result)?;
            readable(written, result.result, link.requester.version)
        }
        _ => return message::raw(&translated(&result, is_mcp)),
    }?;
    match (note, approved_arguments) {
        (Some(note), Some(arguments)) => with_note(&written, &note, arguments),
        _ => Ok(written),
    }
}

/// Parses the arguments of a call. Long arguments are parsed on another thread, where callers take
/// turns.
async fn parse_arguments(arguments: &RawValue, caller: &Caller) -> serde_json::Result<Value> {
    let bytes = arguments.get().len();
    if bytes <= MAX_INLINE_BYTES {
        return serde_json::from_str(arguments.get());
    }
    let arguments = arguments.to_owned();
    let parse = move || serde_json::from_str(arguments.get());
    compute::run(&compute_account(caller), bytes, parse).await
}

/// Adds the arguments that an approver has changed to a server's result: as a text block for the
/// model, and in `_meta` for programs.
fn with_note(written: &RawValue, note: &str, arguments: Value) -> Result<Box<RawValue>, RpcError> {
    let mut result: Value = serde_json::from_str(written.get())
        .map_err(|error| RpcError::new(INTERNAL_ERROR, error.to_string()))?;
    if let Some(content) = result.get_mut("content").and_then(Value::as_array_mut) {
        content.push(json!({"type": "text", "text": note}));
    }
    if result.is_object() {
        result["_meta"][APPROVED_ARGUMENTS_META] = arguments;
    }
    message::raw(&result)
}

/// The key of `_meta` with the arguments that an approver has changed.
const APPROVED_ARGUMENTS_META: &str = "pillion/approved_arguments";

/// Converts a server's result to a `CallToolResult` that clients of `version` can read.
fn readable(
    written: Box<RawValue>,
    value: Value,
    version: ProtocolVersion,
) -> Result<Box<RawValue>, RpcError> {
    as_call_tool_result(written, value, version)
        .map_err(|error| RpcError::new(INTERNAL_ERROR, error.to_string()))
}

/// Translates a result to `CallToolResult`: text for the model, and the envelope `{"ok": ...,
/// "data": ...}` in `structuredContent` for programs. The result of an MCP server's tool gets no
/// envelope, because the tool may declare its own output schema; an error code is in `_meta`.
fn translated(result: &ToolResult, is_mcp: bool) -> Value {
    let text = match &result.error {
        Some(error) if !result.success => match result.note() {
            Some(note) => format!("{error}\n\n{note}"),
            None => error.clone(),
        },
        _ => result.to_message(),
    };
    let mut translated = json!({
        "content": [{"type": "text", "text": text}],
        "isError": !result.success,
    });
    if let Some(id) = result.metadata.get("approval_id") {
        translated["_meta"]["pillion/approval_id"] = json!(id);
    }
    if let Some(arguments) = result.metadata.get(ToolResult::APPROVED_ARGUMENTS) {
        translated["_meta"][APPROVED_ARGUMENTS_META] = arguments.clone();
    }
    let code = result.error_code.map(pillion_core::tool::ErrorCode::as_str);
    if !is_mcp {
        translated["structuredContent"] = if result.success {
            let data = result.data.as_ref().unwrap_or(&result.result);
            json!({"ok": true, "data": data})
        } else {
            json!({"ok": false, "error": {"code": code, "message": text}})
        };
    } else if let Some(code) = code {
        translated["_meta"]["pillion/error_code"] = json!(code);
    }
    translated
}
