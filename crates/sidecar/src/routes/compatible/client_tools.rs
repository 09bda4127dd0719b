use std::sync::Arc;

use pillion_core::tool::ToolDefinition;
use serde_json::Value;

use pillion_management::error::{RequestError, Result};

/// Reads the client's tools with `parse_tool`; `None` if the request has none. `expected` describes
/// the tools for the error, which has the index of the invalid tool and the reason of `parse_tool`.
pub(in crate::routes) fn read_client_tools(
    tools: Option<&Vec<Value>>,
    expected: &str,
    parse_tool: impl Fn(&Value) -> Result<ToolDefinition, String>,
) -> Result<Option<Vec<Arc<ToolDefinition>>>> {
    let Some(tools) = tools.filter(|tools| !tools.is_empty()) else {
        return Ok(None);
    };
    let definitions = tools.iter().enumerate().map(|(index, tool)| {
        let invalid_tool = |reason| {
            RequestError::invalid_parameter("tools", format!("{expected}: tools[{index}] {reason}"))
        };
        parse_tool(tool).map(Arc::new).map_err(invalid_tool)
    });
    definitions.collect::<Result<_, _>>().map(Some)
}

/// Returns the definition of a client's tool, whose JSON Schema is in the member `schema_key`.
pub(in crate::routes) fn tool_definition(
    tool: &Value,
    schema_key: &str,
    default_schema: Value,
) -> Result<ToolDefinition, String> {
    let member_text = |key| tool.get(key).and_then(Value::as_str);
    let name = member_text("name").ok_or("has no name")?;
    let description = member_text("description").filter(|text| !text.trim().is_empty());
    let schema = tool.get(schema_key).filter(|schema| !schema.is_null());
    ToolDefinition::builder(name, description.unwrap_or(name))
        .schema(schema.cloned().unwrap_or(default_schema))
        .strict(tool.get("strict") == Some(&Value::Bool(true)))
        .build()
        .map_err(|error| format!("is invalid: {error}"))
}
