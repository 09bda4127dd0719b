//! Reads the `$context` array that PHP code passes to calls.

use std::collections::{HashMap, HashSet};

use pillion_core::tool::{CallContext, JsonObject};
use serde_json::Value;

use crate::exception;
use crate::json::to_value_as;
use crate::zend::{Failure, MethodCall, Result};

/// Reads the optional context argument of a method.
///
/// - `user` and `channel` specify the caller.
/// - `approved` and `denied` contain approval IDs. `approved` may also contain changed arguments.
/// - All other keys are values for the tools.
///
/// # Errors
/// A `TypeError`, or an `InvalidInputException` that names the invalid key.
pub fn context_argument(call: &MethodCall<'_>, index: usize) -> Result<CallContext> {
    let Some(context) = call.optional_array(index)? else {
        return Ok(CallContext::default());
    };
    let mut extra_values = match to_value_as("argument $context", context)? {
        Value::Object(context) => context,
        Value::Array(list) if list.is_empty() => JsonObject::new(),
        _ => {
            return Err(exception::invalid_input(
                "The context must be an array with string keys",
            ));
        }
    };
    let mut take_text = |key: &str| match extra_values.shift_remove(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        // An integer is accepted as a user ID, because many applications have numeric IDs.
        Some(Value::Number(number)) => Ok(Some(number.to_string())),
        Some(_) => Err(exception::invalid_input(format!(
            "The context's '{key}' must be a string"
        ))),
    };
    let (user, channel) = (take_text("user")?, take_text("channel")?);
    let (approved, approved_arguments) = take_approved(&mut extra_values)?;
    Ok(CallContext {
        user,
        channel,
        approved,
        approved_arguments,
        denied: take_ids(&mut extra_values, "denied")?,
        extra: extra_values,
        ..CallContext::default()
    })
}

/// Reads the key `approved`: a list of approval IDs, or a map from approval IDs to the arguments
/// that replace the call's original arguments.
fn take_approved(extra: &mut JsonObject) -> Result<(HashSet<String>, HashMap<String, JsonObject>)> {
    let Some(Value::Object(entries)) = extra.get("approved") else {
        return Ok((take_ids(extra, "approved")?, HashMap::new()));
    };
    let (mut approved_ids, mut arguments) = (HashSet::new(), HashMap::new());
    for (key, entry) in entries {
        match entry {
            Value::String(id) => approved_ids.insert(id.clone()),
            Value::Object(edited_arguments) => {
                arguments.insert(key.clone(), edited_arguments.clone());
                approved_ids.insert(key.clone())
            }
            Value::Array(items) if items.is_empty() => {
                arguments.insert(key.clone(), JsonObject::new());
                approved_ids.insert(key.clone())
            }
            _ => return Err(invalid_ids("approved")),
        };
    }
    extra.shift_remove("approved");
    Ok((approved_ids, arguments))
}

fn invalid_ids(key: &str) -> Failure {
    exception::invalid_input(format!(
        "The context's '{key}' must be a list of approval ids"
    ))
}

fn take_ids(context: &mut JsonObject, key: &str) -> Result<HashSet<String>> {
    match context.shift_remove(key) {
        None | Some(Value::Null) => Ok(HashSet::new()),
        Some(Value::Array(ids)) => ids
            .into_iter()
            .map(|id| match id {
                Value::String(id) => Ok(id),
                _ => Err(invalid_ids(key)),
            })
            .collect(),
        Some(_) => Err(invalid_ids(key)),
    }
}

/// The context key that contains the ID of the approval that a call needs.
const APPROVAL_KEY: &str = "approval_id";

/// Returns the context for PHP code. The only approval ID in the returned context is the ID of the
/// approval that the call needs.
pub fn to_php_json(context: &CallContext, approval: Option<&str>) -> Value {
    let mut php_context = JsonObject::new();
    let user = context.user.as_deref();
    let channel = context.channel.as_deref();
    for (key, text) in [
        ("user", user),
        ("channel", channel),
        (APPROVAL_KEY, approval),
    ] {
        if let Some(text) = text {
            php_context.insert(key.to_owned(), Value::from(text));
        }
    }
    let extra_values = (context.extra.iter()).filter(|(key, _)| *key != APPROVAL_KEY);
    php_context.extend(extra_values.map(|(key, value)| (key.clone(), value.clone())));
    Value::Object(php_context)
}
