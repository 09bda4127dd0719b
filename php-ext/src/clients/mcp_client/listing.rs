//! The methods of `McpClient` for lists of tools, resources and prompts, and for completion.

use pillion_mcp_client::{McpClient, McpError};
use serde_json::json;
use serde_json::value::{RawValue, to_raw_value};

use super::{EMPTY_OBJECT, link_and_hooks, request_method};
use crate::exception;
use crate::json::to_value;
use crate::mcp::{decode_message, read_arguments, tool_list};
use crate::zend::{Class, MethodCall, Outcome, Result, empty_array, member, methods, try_new_list};

pub(super) fn add_methods(class: Class) -> Class {
    methods!(
        class,
        "listTools(): array" => list_tools,
        "listResources(): array" => list_resources,
        "listResourceTemplates(): array" => list_resource_templates,
        "readResource(string $uri): array" => read_resource,
        "listPrompts(): array" => list_prompts,
        "getPrompt(string $name, array $arguments = []): array" => get_prompt,
        "complete(array $reference, string $argument, string $value, \
         array $context = []): array" => complete,
    )
}

fn list_tools(call: &mut MethodCall<'_>) -> Outcome {
    let (link, hooks) = link_and_hooks(call)?;
    tool_list::list(link, hooks, EMPTY_OBJECT)
}

fn list_resources(call: &mut MethodCall<'_>) -> Outcome {
    list_items(call, "resources/list", |client| async move {
        client.list_resources().await
    })
}

fn list_resource_templates(call: &mut MethodCall<'_>) -> Outcome {
    list_items(call, "resources/templates/list", |client| async move {
        client.list_resource_templates().await
    })
}

fn list_prompts(call: &mut MethodCall<'_>) -> Outcome {
    list_items(call, "prompts/list", |client| async move {
        client.list_prompts().await
    })
}

/// Returns all pages of a list.
fn list_items<F>(call: &MethodCall<'_>, method: &str, list: impl FnOnce(McpClient) -> F) -> Outcome
where
    F: Future<Output = Result<Vec<Box<RawValue>>, McpError>> + Send + 'static,
{
    let (link, hooks) = link_and_hooks(call)?;
    let items = link.send(hooks, method, list)?;
    try_new_list((items.iter()).map(|item| decode_message(item, EMPTY_OBJECT)))
}

/// Returns the complete result of `resources/read`: `contents` and any other members.
fn read_resource(call: &mut MethodCall<'_>) -> Outcome {
    let params = to_params(&json!({"uri": call.string(0)?}))?;
    request_method(call, "resources/read", params).and_then(require_array)
}

/// Returns the complete result of `prompts/get`: `messages`, `description` and any other members.
fn get_prompt(call: &mut MethodCall<'_>) -> Outcome {
    let arguments = read_arguments(call, 1)?;
    let params = to_params(&json!({"name": call.string(0)?, "arguments": arguments}))?;
    request_method(call, "prompts/get", params).and_then(require_array)
}

/// Returns the `completion` of a `completion/complete` result: `values`, `total`, `hasMore`.
fn complete(call: &mut MethodCall<'_>) -> Outcome {
    let reference = to_value(call.array(0)?)?;
    let mut params = json!({
        "ref": reference,
        "argument": {"name": call.string(1)?, "value": call.string(2)?},
    });
    let context = read_arguments(call, 3)?;
    if context.get() != "{}" {
        params["context"] = json!({ "arguments": context });
    }
    let result = request_method(call, "completion/complete", to_params(&params)?)?;
    match member(&result, "completion") {
        Some(completion) => require_array(completion),
        None => Err(exception::transport_failure(
            "MCP request failed: the response has no 'completion'",
        )),
    }
}

/// Returns an error if a server's result is not an array. A server may send any JSON value, but the
/// methods of `McpClient` for lists return arrays.
fn require_array(value: ext_php_rs::types::Zval) -> Outcome {
    if value.is_array() {
        return Ok(value);
    }
    if value.is_object() {
        return Ok(empty_array());
    }
    Err(exception::transport_failure(
        "MCP request failed: the response is not an object",
    ))
}

fn to_params(params: &serde_json::Value) -> Result<Box<RawValue>> {
    to_raw_value(params).map_err(|error| exception::invalid_input(error.to_string()))
}
