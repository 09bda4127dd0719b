//! `DmcpTool`: rolls dice on a remote MCP server.

use ext_php_rs::error::Result as ZendResult;
use ext_php_rs::types::Zval;
use pillion_core::tool::{
    ErrorCode, ParameterType, ToolDefinition, ToolFailure, ToolParameter, ToolResult,
};
use serde_json::{Map, Value, json};

use super::mcp_tool_adapter as adapter;
use crate::exception;
use crate::json::{EmptyObject, decode_value, to_value};
use crate::log::{LogLevel, log};
use crate::values::interfaces::EXECUTE;
use crate::values::{tool_definition, tool_result};
use crate::zend::{Class, ClassSlot, Failure, MethodCall, Object, Outcome, methods, string_of};

static CLASS: ClassSlot = ClassSlot::new();
const TOOL: &str = "dmcp_roll_dice";

pub fn register() -> ZendResult<()> {
    methods!(
        Class::new("Pillion\\DmcpTool").extends(adapter::CLASS.get()),
        "getName(): string" => get_name,
        "getDefinition(): Pillion\\ToolDefinition" => get_definition,
        "getMCPCategory(): string" => get_mcp_category,
        EXECUTE => execute,
    )
    .register(&CLASS)
}

fn get_name(_call: &mut MethodCall<'_>) -> Outcome {
    Ok(string_of(TOOL))
}

fn get_mcp_category(_call: &mut MethodCall<'_>) -> Outcome {
    Ok(string_of("gaming"))
}

fn get_definition(_call: &mut MethodCall<'_>) -> Outcome {
    let definition = ToolDefinition::builder(
        TOOL,
        "Rolls dice for Dungeons & Dragons, such as \"1d20\", \"2d6+3\" or \"1d20 advantage\".",
    )
    .parameter(
        ToolParameter::new("dice", ParameterType::String)
            .describe("The dice to roll, such as \"1d20\", \"2d6+3\" or \"1d20 advantage\""),
    )
    .parameter(
        ToolParameter::new("reason", ParameterType::String)
            .describe("Why they are rolled, such as \"Attack roll\"")
            .optional(),
    )
    .category("gaming")
    .build()
    .map_err(|error| Failure::error(error.to_string()))?;
    tool_definition::new_definition(&definition)
}

/// Runs the tool. Every failure becomes a failed result, except the end of the request.
fn execute(call: &mut MethodCall<'_>) -> Outcome {
    let arguments = to_value(call.array(0)?)?;
    let id = call.string(1)?;
    let text = |key: &str| {
        let text = arguments.get(key).and_then(Value::as_str).map(str::trim);
        text.filter(|text| !text.is_empty())
    };
    let result = match roll(call.this(), id, text("dice"), text("reason"))? {
        Ok(result) => ToolResult::success(id, TOOL, result),
        Err(failure) => {
            let mut result = ToolResult::failure(id, TOOL, failure.code, failure.message);
            result.result = failure.result;
            result
        }
    };
    tool_result::new_result(&result)
}

fn roll(
    this: Object<'_>,
    id: &str,
    dice: Option<&str>,
    reason: Option<&str>,
) -> Result<Result<Value, ToolFailure>, Failure> {
    let failure = |code, message: &str, shown: &str| {
        Ok(Err(
            ToolFailure::new(code, message).with_result(json!({ "error": shown }))
        ))
    };
    let Some(client) = adapter::client(this)? else {
        return failure(
            ErrorCode::Unavailable,
            "Server not configured",
            "DMCP server URL not configured",
        );
    };
    let Some(dice) = dice else {
        return failure(
            ErrorCode::InvalidInput,
            "Missing required parameter: dice",
            "Dice notation is required",
        );
    };
    log(
        LogLevel::Info,
        "DMCP tool executing",
        || json!({"tool": TOOL, "tool_call_id": id}),
    );
    let config = adapter::server_config(this)?;
    let response = match call_remote(&client, &config, dice, reason) {
        Ok(response) => response,
        Err(error) => return failed_call(error).map(Err),
    };
    if response.get("isError") == Some(&Value::Bool(true)) {
        let message = text_content(&response).unwrap_or_else(|| "The MCP tool failed".to_owned());
        return Ok(Err(ToolFailure::internal(message).with_result(response)));
    }
    let result = result_of(&response, dice, reason);
    log(
        LogLevel::Info,
        "DMCP tool executed successfully",
        || json!({"tool": TOOL, "tool_call_id": id}),
    );
    Ok(Ok(result))
}

/// Calls the remote tool with the names in the server's configuration: `tool_name` and
/// `argument_names` (null omits an argument).
fn call_remote(
    client: &Zval,
    config: &Value,
    dice: &str,
    reason: Option<&str>,
) -> Result<Value, Failure> {
    let mut arguments = Map::new();
    for (name, value) in [("dice", Some(dice)), ("reason", reason)] {
        let Some(value) = value else { continue };
        let remote = match config
            .get("argument_names")
            .and_then(|names| names.get(name))
        {
            None => name,
            Some(Value::String(remote)) => remote,
            Some(Value::Null) => continue,
            Some(_) => {
                return Err(exception::invalid_input(format!(
                    "argument_names.{name} must be a string or null"
                )));
            }
        };
        arguments.insert(remote.to_owned(), json!(value));
    }
    let tool = config
        .get("tool_name")
        .and_then(Value::as_str)
        .unwrap_or("roll");
    let client = Object::from_value(client).ok_or(Failure::Pending)?;
    let arguments = decode_value(&Value::Object(arguments), EmptyObject::Array)?;
    to_value(&client.call("callTool", [string_of(tool), arguments])?)
}

/// Converts the failure of a call to a failed result, unless the failure must end the request.
fn failed_call(failure: Failure) -> Result<ToolFailure, Failure> {
    let failure = exception::into_tool_failure(failure)?;
    let shown = format!("Failed to execute: {}", failure.message);
    Ok(failure.with_result(json!({ "error": shown })))
}

/// Returns the result in the form of HAWKI's `DmcpTool`. HAWKI's demo server sends `total` at the
/// top level; current servers send it in `structuredContent` or in a JSON text block.
fn result_of(response: &Value, dice: &str, reason: Option<&str>) -> Value {
    let text = text_content(response);
    let fields: Option<Map<String, Value>> = text
        .as_deref()
        .and_then(|text| serde_json::from_str(text).ok());
    let find = |key: &str| {
        let structured = || response.get("structuredContent")?.get(key);
        let in_text = || fields.as_ref()?.get(key);
        response
            .get(key)
            .or_else(structured)
            .or_else(in_text)
            .cloned()
    };
    let plain_text = || text.clone().filter(|_| fields.is_none()).map(Value::String);
    let mut result = json!({
        "dice": dice,
        "result": find("result").or_else(plain_text).unwrap_or_else(|| json!("Unknown result")),
        "total": find("total"),
        "rolls": find("rolls"),
    });
    if let Some(reason) = reason {
        result["reason"] = json!(reason);
    }
    result
}

fn text_content(response: &Value) -> Option<String> {
    let blocks = response.get("content")?.as_array()?;
    let texts: Vec<_> = blocks
        .iter()
        .filter_map(|block| block.get("text")?.as_str())
        .collect();
    (!texts.is_empty()).then(|| texts.join("\n"))
}
