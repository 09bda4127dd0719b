//! The array `$context` that goes along with calls (requirement C1).

use pillion_core::tool::{CallContext, JsonObject};
use serde_json::Value;

use crate::exception;
use crate::json::to_value;
use crate::zend::{Call, Failure};

/// Reads the context that is an argument of a method and may be left out: `user` and
/// `channel` say on whose behalf the calls run, the rest is for the tools.
///
/// # Errors
/// A `TypeError`, or an `InvalidInputException` that names the key.
pub fn context_argument(call: &Call<'_>, index: usize) -> Result<CallContext, Failure> {
    let Some(context) = call.value(index) else {
        return Ok(CallContext::default());
    };
    call.array(index)?;
    let mut extra = match to_value(context)? {
        Value::Object(context) => context,
        Value::Array(list) if list.is_empty() => JsonObject::new(),
        _ => {
            return Err(exception::invalid_input(
                "The context must be an array with names as keys",
            ));
        }
    };
    let mut text = |key: &str| match extra.shift_remove(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        // User ids are often numbers.
        Some(Value::Number(number)) => Ok(Some(number.to_string())),
        Some(_) => Err(exception::invalid_input(format!(
            "The context's '{key}' must be a string"
        ))),
    };
    Ok(CallContext {
        user: text("user")?,
        channel: text("channel")?,
        extra,
        ..CallContext::default()
    })
}
