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
use crate::values::interfaces::EXECUTE_DECLARATION;
use crate::values::{tool_definition, tool_result};
use crate::zend::{
    Class, ClassSlot, Failure, MethodCall, Object, Outcome, Result, methods, new_string,
};

static CLASS: ClassSlot = ClassSlot::new();
const TOOL_NAME: &str = "dmcp_roll_dice";

pub fn register() -> ZendResult<()> {
    methods!(
        Class::new("Pillion\\DmcpTool").extends(adapter::CLASS.get()),
        "getName(): string" => get_name,
        "getDefinition(): Pillion\\ToolDefinition" => get_definition,
        "getMCPCategory(): string" => get_mcp_category,
        EXECUTE_DECLARATION => execute,
    )
    .register(&CLASS)
}

fn get_name(_call: &mut MethodCall<'_>) -> Outcome {
    Ok(new_string(TOOL_NAME))
}

fn get_mcp_category(_call: &mut MethodCall<'_>) -> Outcome {
    Ok(new_string("gaming"))
}

fn get_definition(_call: &mut MethodCall<'_>) -> Outcome {
    let definition = ToolDefinition::builder(
        TOOL_NAME,
        "Rolls dice for Dungeons & Dragons, such as \"1d20\", \"2d6+3\" or \"1d20 advantage\".",
    )
    .parameter(
        ToolParameter::new("dice", ParameterType::String)
            .describe("The dice to roll, such as \"1d20\", \"2d6+3\" or \"1d20 advantage\""),
    )
    .parameter(
        ToolParameter::new("reason", ParameterType::String)
            .describe("Why the dice are rolled, such as \"Attack roll\"")
            .optional(),
    )
    .category("gaming")
    .build()
    .map_err(|error| Failure::error(error.to_string()))?;
    tool_definition::new_definition(&definition)
}

/// Runs the tool. Every failure becomes a failed result, unless the failure must end the PHP
/// request.
fn execute(call: &mut MethodCall<'_>) -> Outcome {
    let arguments = to_value(call.array(0)?)?;
    let id = call.string(1)?;
    let text = |key: &str| {
        let text = arguments.get(key).and_then(Value::as_str).map(str::trim);
        text.filter(|text| !text.is_empty())
    };
    let result = match roll(call.this(), id, text("dice"), text("reason"))? {
        Ok(result) => ToolResult::success(id, TOOL_NAME, result),
        Err(failure) => {
            let mut result = ToolResult::failure(id, TOOL_NAME, failure.code, failure.message);
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
) -> Result<Result<Value, ToolFailure>> {
    let fail = |code, message: &str, result_message: &str| {
        Ok(Err(
            ToolFailure::new(code, message).with_result(json!({ "error": result_message }))
        ))
    };
    let Some(client) = adapter::client(this)? else {
        return fail(
            ErrorCode::Unavailable,
            "Server not configured",
            "DMCP server URL not configured",
        );
    };
    let Some(dice) = dice else {
        return fail(
            ErrorCode::InvalidInput,
            "Missing required parameter: dice",
            "Dice notation is required",
        );
    };
    log(
        LogLevel::Info,
        "DMCP tool executing",
        || json!({"tool": TOOL_NAME, "tool_call_id": id}),
    );
    let config = adapter::server_config(this)?;
    let response = match call_remote(&client, &config, dice, reason) {
        Ok(response) => response,
        Err(failure) => return to_failed_call(failure).map(Err),
    };
    if response.get("isError") == Some(&Value::Bool(true)) {
        let message = text_content(&response).unwrap_or_else(|| "The MCP tool failed".to_owned());
        return Ok(Err(ToolFailure::internal(message).with_result(response)));
    }
    let result = to_hawki_result(&response, dice, reason);
    log(
        LogLevel::Info,
        "DMCP tool executed successfully",
        || json!({"tool": TOOL_NAME, "tool_call_id": id}),
    );
    Ok(Ok(result))
}

/// Calls the remote tool with the names in the server's configuration: `tool_name` and
/// `argument_names` (null omits an argument).
fn call_remote(client: &Zval, config: &Value, dice: &str, reason: Option<&str>) -> Result<Value> {
    let mut arguments = Map::new();
    for (name, value) in [("dice", Some(dice)), ("reason", reason)] {
        let Some(value) = value else { continue };
        let remote_name = match config
            .get("argument_names")
            .and_then(|names| names.get(name))
        {
            None => name,
            Some(Value::String(remote_name)) => remote_name,
            Some(Value::Null) => continue,
            Some(_) => {
                return Err(exception::invalid_input(format!(
                    "argument_names.{name} must be a string or null"
                )));
            }
        };
        arguments.insert(remote_name.to_owned(), json!(value));
    }
    let remote_tool = config
        .get("tool_name")
        .and_then(Value::as_str)
        .unwrap_or("roll");
    let client_object = Object::from_value(client).ok_or(Failure::Pending)?;
    let argument_value = decode_value(&Value::Object(arguments), EmptyObject::Array)?;
    to_value(&client_object.call("callTool", [new_string(remote_tool), argument_value])?)
}

/// Converts the failure of a call to a failed result, unless the failure must end the request.
fn to_failed_call(failure: Failure) -> Result<ToolFailure> {
    let tool_failure = exception::into_tool_failure(failure)?;
    let result_message = format!("Failed to execute: {}", tool_failure.message);
    Ok(tool_failure.with_result(json!({ "error": result_message })))
}

/// Returns the result in the form of HAWKI's `DmcpTool`. HAWKI's demo server sends `total` at the
/// top level; current servers send `total` in `structuredContent` or in a JSON text block.
fn to_hawki_result(response: &Value, dice: &str, reason: Option<&str>) -> Value {
    let text = text_content(response);
    let fields: Option<Map<String, Value>> = text
        .as_deref()
        .and_then(|text| serde_json::from_str(text).ok());
    let find_field = |key: &str| {
        let structured_field = || response.get("structuredContent")?.get(key);
        let text_field = || fields.as_ref()?.get(key);
        response
            .get(key)
            .or_else(structured_field)
            .or_else(text_field)
            .cloned()
    };
    let plain_text = || text.clone().filter(|_| fields.is_none()).map(Value::String);
    let mut result = json!({
        "dice": dice,
        "result": find_field("result").or_else(plain_text).unwrap_or_else(|| json!("Unknown result")),
        "total": find_field("total"),
        "rolls": find_field("rolls"),
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
