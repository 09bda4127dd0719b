//! Reads models from PHP values, for the capability filter.

use ext_php_rs::types::Zval;
use pillion_core::capability::{ModelConfig, ToolCapabilities};
use serde_json::{Value, json};

use crate::exception;
use crate::json::to_value;
use crate::zend::{MethodCall, Object, Result};

/// Returns the tool capabilities of a model that is an argument of a method.
///
/// # Errors
/// A `TypeError` if the argument has another type; an error of [`read_capabilities`].
pub fn model_argument(call: &MethodCall<'_>, index: usize) -> Result<ToolCapabilities> {
    let model = call
        .value(index)
        .filter(|model| model.is_array() || model.is_object())
        .ok_or_else(|| call.type_error(index, "array|object"))?;
    read_capabilities(model)
}

/// Returns the tool capabilities of a model.
///
/// A model is one of these values:
///
/// - an array with the key `tools` (a model configuration)
/// - the value of `tools`: an array with the keys `function_calling`, `mcp` and `enabled_tools`
/// - an object with the method `getTools()`, such as HAWKI's `AiModel`
/// - an object with public properties that are named like the keys of one of these arrays
///
/// # Errors
/// An `InvalidInputException` that names the key with the invalid value.
fn read_capabilities(model: &Zval) -> Result<ToolCapabilities> {
    let tools = match Object::from_value(model) {
        Some(object) if object.has_method("getTools") => to_value(&object.call("getTools", [])?)?,
        _ => match to_value(model)? {
            Value::Object(mut model) if model.contains_key("tools") => model["tools"].take(),
            tools => tools,
        },
    };
    // Null for `enabled_tools` is rejected here, because the parser would treat null as a missing
    // key and offer all tools.
    if tools.get("enabled_tools").is_some_and(Value::is_null) {
        return Err(exception::invalid_input(
            "model.enabled_tools must be a list of names, not null: null would enable all tools",
        ));
    }
    // Add a placeholder ID: the parser requires a complete model configuration, and the ID is
    // ignored.
    ModelConfig::from_value(&json!({"id": "model", "tools": tools}))
        .map(|model| model.tools)
        .map_err(|error| exception::invalid_input(error.to_string()))
}
