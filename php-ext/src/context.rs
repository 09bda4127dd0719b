//! Reads the `$context` array of calls.

use std::collections::{HashMap, HashSet};

use pillion_core::tool::{CallContext, JsonObject};
use serde_json::Value;

use crate::exception;
use crate::json::to_value_as;
use crate::zend::{Failure, MethodCall};

/// Reads the optional context argument of a method: `user` and `channel` specify the caller,
/// `approved` and `denied` are approval IDs (`approved` also with changed arguments), and
/// everything else is for the tools.
///
/// # Errors
/// A `TypeError`, or an `InvalidInputException` that names the invalid key.
pub fn context_argument(call: &MethodCall<'_>, index: usize) -> Result<CallContext, Failure> {
    let Some(context) = call.optional_array(index)? else {
        return Ok(CallContext::default());
    };
    let mut extra = match to_value_as("argument $context", context)? {
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
        // Applications often have numbers as user IDs.
        Some(Value::Number(number)) => Ok(Some(number.to_string())),
        Some(_) => Err(exception::invalid_input(format!(
            "The context's '{key}' must be a string"
        ))),
    };
    let (user, channel) = (text("user")?, text("channel")?);
    let (approved, approved_arguments) = approved(&mut extra)?;
    Ok(CallContext {
        user,
        channel,
        approved,
        approved_arguments,
        denied: ids(&mut extra, "denied")?,
        extra,
        ..CallContext::default()
    })
}

/// Reads the key `approved`: a list of approval IDs, or a map from IDs to the arguments with which
/// the call runs instead of its own.
fn approved(
    context: &mut JsonObject,
) -> Result<(HashSet<String>, HashMap<String, JsonObject>), Failure> {
    let Some(Value::Object(entries)) = context.get("approved") else {
        return Ok((ids(context, "approved")?, HashMap::new()));
    };
    let (mut approved, mut arguments) = (HashSet::new(), HashMap::new());
    for (key, entry) in entries {
        match entry {
            Value::String(id) => approved.insert(id.clone()),
            Value::Object(edited) => {
                arguments.insert(key.clone(), edited.clone());
                approved.insert(key.clone())
            }
            Value::Array(items) if items.is_empty() => {
                arguments.insert(key.clone(), JsonObject::new());
                approved.insert(key.clone())
            }
            _ => return Err(not_ids("approved")),
        };
    }
    context.shift_remove("approved");
    Ok((approved, arguments))
}

fn not_ids(key: &str) -> Failure {
    exception::invalid_input(format!(
        "The context's '{key}' must be a list of approval ids"
    ))
}

fn ids(context: &mut JsonObject, key: &str) -> Result<HashSet<String>, Failure> {
    match context.shift_remove(key) {
        None | Some(Value::Null) => Ok(HashSet::new()),
        Some(Value::Array(ids)) => ids
            .into_iter()
            .map(|id| match id {
                Value::String(id) => Ok(id),
                _ => Err(not_ids(key)),
            })
            .collect(),
        Some(_) => Err(not_ids(key)),
    }
}

/// The context key with the ID of the approval that a call needs.
const APPROVAL_KEY: &str = "approval_id";

/// Returns the context for PHP code. Of the approval IDs, the context contains only that of the
/// approval that the call needs.
pub fn to_php_json(context: &CallContext, approval: Option<&str>) -> Value {
    let mut visible = JsonObject::new();
    let user = context.user.as_deref();
    let channel = context.channel.as_deref();
    for (key, text) in [
        ("user", user),
        ("channel", channel),
        (APPROVAL_KEY, approval),
    ] {
        if let Some(text) = text {
            visible.insert(key.to_owned(), Value::from(text));
        }
    }
    let extra = (context.extra.iter()).filter(|(key, _)| *key != APPROVAL_KEY);
    visible.extend(extra.map(|(key, value)| (key.clone(), value.clone())));
    Value::Object(visible)
}
