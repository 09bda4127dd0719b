//! Reads models from PHP values, for the capability filter.

use ext_php_rs::types::Zval;
use pillion_core::capability::{ModelConfig, ToolCapabilities};
use serde_json::{Value, json};

use crate::exception;
use crate::json::to_value;
use crate::zend::{Failure, MethodCall, Object};

/// Returns the tool capabilities of a model that is an argument of a method.
///
/// # Errors
/// A `TypeError` if the argument has another type; an error of [`capabilities_of`].
pub fn model_argument(call: &MethodCall<'_>, index: usize) -> Result<ToolCapabilities, Failure> {
    let model = call
        .value(index)
        .filter(|model| model.is_array() || model.is_object())
        .ok_or_else(|| call.type_error(index, "array|object"))?;
    capabilities_of(model)
}

/// Returns the tool capabilities of a model.
///
/// A model is an array: a model configuration with the key `tools`, or the value of this key
/// (`function_calling`, `mcp`, `enabled_tools`). Or a model is an object with the method
/// `getTools()`, such as HAWKI's `AiModel`, or with public properties that have the names of the
/// array's keys.
///
/// # Errors
/// An `InvalidInputException` that names the key with the invalid value.
fn capabilities_of(model: &Zval) -> Result<ToolCapabilities, Failure> {
    let tools = match Object::from_value(model) {
        Some(object) if object.has_method("getTools") => to_value(&object.call("getTools", [])?)?,
        _ => match to_value(model)? {
            Value::Object(mut model) if model.contains_key("tools") => model["tools"].take(),
            tools => tools,
        },
    };
    // `enabled_tools` that is null is rejected here: the parser treats null as absent, and would
    // offer all tools.
    if tools.get("enabled_tools").is_some_and(Value::is_null) {
        return Err(exception::invalid_input(
            "model.enabled_tools must be a list of names, not null: null would enable all tools",
        ));
    }
    // The parser requires a whole model configuration. The ID has no effect here.
    ModelConfig::from_value(&json!({"id": "model", "tools": tools}))
        .map(|model| model.tools)
        .map_err(|error| exception::invalid_input(error.to_string()))
}
