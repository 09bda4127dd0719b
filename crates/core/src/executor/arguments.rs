use serde_json::Value;

use crate::json_error_text;
use crate::tool::{JsonObject, ToolFailure};

/// Parses arguments: an object, or a string that contains a JSON object. `null`, an empty string
/// and `[]` (PHP's encoding of an empty object) mean no arguments.
pub(super) fn parse(arguments: Value) -> Result<JsonObject, ToolFailure> {
    match arguments {
        Value::Object(arguments) => Ok(arguments),
        Value::Null => Ok(JsonObject::new()),
        Value::Array(items) if items.is_empty() => Ok(JsonObject::new()),
        Value::String(text) if text.trim().is_empty() => Ok(JsonObject::new()),
        Value::String(text) => match serde_json::from_str(&text) {
            Ok(Value::Object(arguments)) => Ok(arguments),
            Ok(Value::Null) => Ok(JsonObject::new()),
            Ok(_) => Err(not_an_object()),
            Err(error) => Err(ToolFailure::invalid_input(format!(
                "Invalid JSON in arguments: {}",
                json_error_text(&error)
            ))),
        },
        _ => Err(not_an_object()),
    }
}

fn not_an_object() -> ToolFailure {
    ToolFailure::invalid_input("The arguments must be a JSON object")
}
