//! Models as PHP code has them, for the capability filter (requirement H2).

use ext_php_rs::types::Zval;
use pillion_core::capability::{ModelConfig, ToolCapabilities};
use serde_json::{Value, json};

use crate::exception;
use crate::json::to_value;
use crate::zend::{Call, Failure, Object};

/// The capabilities of a model that is an argument of a method.
///
/// # Errors
/// A `TypeError`, and as [`capabilities_of`].
pub fn model_argument(call: &Call<'_>, index: usize) -> Result<ToolCapabilities, Failure> {
    let model = call
        .value(index)
        .filter(|model| model.is_array() || model.is_object())
        .ok_or_else(|| call.type_error(index, "array|object"))?;
    capabilities_of(model)
}

/// What a model can do with tools.
///
/// The model is an array: a model configuration with the key `tools`, or that key's value
/// (`function_calling`, `mcp`, `enabled_tools`). Or it is an object with `getTools()`, as
/// HAWKI's `AiModel` has it, or with public properties like the keys of the array.
///
/// # Errors
/// An `InvalidInputException` that names the key with a wrong value.
fn capabilities_of(model: &Zval) -> Result<ToolCapabilities, Failure> {
    let tools = match Object::of(model) {
        Some(object) if object.has_method("getTools") => to_value(&object.call("getTools", [])?)?,
        _ => match to_value(model)? {
            Value::Object(mut model) if model.contains_key("tools") => model["tools"].take(),
            tools => tools,
        },
    };
    // The reader wants a whole configuration, whose id plays no part here.
    ModelConfig::from_value(&json!({"id": "model", "tools": tools}))
        .map(|model| model.tools)
        .map_err(|error| exception::invalid_input(error.to_string()))
}
