//! Reads the arguments of the tools. The executor has already validated the arguments' types.

use pillion_core::tool::{JsonObject, ToolFailure};
use serde_json::Value;

/// Maximum length of a scene's ID, in characters.
pub(crate) const MAX_SCENE_ID_CHARS: usize = 100;
/// Maximum length of the name of a character or an author, in characters.
pub(crate) const MAX_NAME_CHARS: usize = 64;

/// Returns the argument `name`; a null argument counts as absent.
pub(crate) fn find_argument<'a>(arguments: &'a JsonObject, name: &str) -> Option<&'a Value> {
    arguments.get(name).filter(|value| !value.is_null())
}

/// Returns a required string argument, trimmed, of at most `max_chars` characters.
pub(crate) fn read_text(
    arguments: &JsonObject,
    name: &str,
    max_chars: usize,
) -> Result<String, ToolFailure> {
    let value = find_argument(arguments, name)
        .ok_or_else(|| ToolFailure::invalid_input(format!("Missing required parameter: {name}")))?;
    let text = value
        .as_str()
        .map(str::trim)
        .ok_or_else(|| invalid_argument(name, "must be a string"))?;
    if text.is_empty() {
        return Err(invalid_argument(name, "must not be empty"));
    }
    if text.chars().count() > max_chars {
        return Err(invalid_argument(
            name,
            &format!("has more than {max_chars} characters"),
        ));
    }
    Ok(text.to_owned())
}

/// Returns a required single-line string argument, such as a name.
pub(crate) fn read_name(
    arguments: &JsonObject,
    name: &str,
    max_chars: usize,
) -> Result<String, ToolFailure> {
    let text = read_text(arguments, name, max_chars)?;
    if text.chars().any(char::is_control) {
        return Err(invalid_argument(
            name,
            "must not contain control characters",
        ));
    }
    Ok(text)
}

/// Returns a boolean argument; default `false`.
pub(crate) fn read_flag(arguments: &JsonObject, name: &str) -> Result<bool, ToolFailure> {
    match find_argument(arguments, name) {
        None => Ok(false),
        Some(value) => value
            .as_bool()
            .ok_or_else(|| invalid_argument(name, "must be true or false")),
    }
}

/// Returns an integer argument from `-max_value` to `max_value`. As in JSON Schema, `5.0` is an
/// integer.
pub(crate) fn read_integer(
    arguments: &JsonObject,
    name: &str,
    max_value: i64,
) -> Result<Option<i64>, ToolFailure> {
    let Some(value) = find_argument(arguments, name) else {
        return Ok(None);
    };
    let number = as_integer(value).ok_or_else(|| invalid_argument(name, "must be an integer"))?;
    if !(-max_value..=max_value).contains(&number) {
        return Err(invalid_argument(
            name,
            &format!("must be from -{max_value} to {max_value}"),
        ));
    }
    Ok(Some(number))
}

/// Returns a seed, which may be any signed or unsigned 64-bit integer.
pub(crate) fn read_seed(arguments: &JsonObject, name: &str) -> Result<Option<u64>, ToolFailure> {
    let Some(value) = find_argument(arguments, name) else {
        return Ok(None);
    };
    value
        .as_u64()
        .or_else(|| as_integer(value).map(i64::cast_unsigned))
        .map(Some)
        .ok_or_else(|| invalid_argument(name, "must be a 64-bit integer"))
}

/// Returns a number if it is an integer, such as `5` or `5.0`.
pub(crate) fn as_integer(value: &Value) -> Option<i64> {
    let read_whole_number = || value.as_f64().filter(|number| number.trunc() == *number);
    let from_whole_number = || i64::try_from(read_whole_number()? as i128).ok();
    value.as_i64().or_else(from_whole_number)
}

pub(crate) fn invalid_argument(name: &str, problem: &str) -> ToolFailure {
    ToolFailure::invalid_input(format!("'{name}' {problem}"))
}
