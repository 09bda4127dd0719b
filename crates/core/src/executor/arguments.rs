use serde_json::Value;

use crate::json_error_text;
use crate::tool::{JsonObject, ToolFailure};

/// Takes the arguments as an object or as a string that holds one (A6). Nothing at all
/// means no arguments; PHP writes an empty object as `[]`, so that does too.
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
