//! Repairs arguments in which a model has written JSON as text.

use std::time::Duration;

use serde_json::{Map, Value};

use super::alternatives::{
    ARRAY, BOOLEAN, JsonTypes, MAX_STEPS, OBJECT, STRING, SchemaReader, ValueLocation, value_type,
};
use super::{
    CheckAborted, CheckBudget, CompiledSchema, InvalidArguments, OptionalNull, json_values,
};

/// Maximum number of times that a value may be encoded as a JSON string inside a JSON string.
const MAX_ENCODINGS: usize = 4;

impl CompiledSchema {
    /// Validates like [`validate_within`](Self::validate_within), and repairs arguments that do not
    /// match: where the schema does not allow a string, a string is replaced by the JSON value that
    /// it contains, if the schema allows a value of that type. Returns whether the arguments were
    /// repaired.
    ///
    /// ```
    /// use pillion_schema::{CompiledSchema, MAX_CHECK_TIME, OptionalNull};
    /// use serde_json::json;
    /// let schema = CompiledSchema::compile(&json!({"properties": {"ids": {"type": "array"}}}))?;
    /// let mut arguments = json!({"ids": "[1, 2]"}).as_object().cloned().unwrap_or_default();
    /// let repaired = schema.repair_within(&mut arguments, OptionalNull::Invalid, MAX_CHECK_TIME);
    /// assert_eq!(repaired, Ok(Ok(true)));
    /// assert_eq!(arguments["ids"], json!([1, 2]));
    /// # Ok::<(), pillion_schema::SchemaError>(())
    /// ```
    ///
    /// # Errors
    /// The same errors as [`validate_within`](Self::validate_within). If the repaired arguments do
    /// not match either, the error is the violation of the original arguments.
    pub fn repair_within(
        &self,
        arguments: &mut Map<String, Value>,
        nulls: OptionalNull,
        time_limit: Duration,
    ) -> Result<Result<bool, InvalidArguments>, CheckAborted> {
        let budget = CheckBudget::for_time(time_limit);
        let Err(violation) = self.read_arguments(arguments, nulls, &budget)? else {
            return Ok(Ok(false));
        };
        let mut decoded_value = Value::Object(arguments.clone());
        let mut reader = SchemaReader::new(&self.schema, MAX_STEPS);
        let location = reader.root_location(&self.schema);
        if !decode_texts(&mut reader, location, &mut decoded_value) {
            return Ok(Err(violation));
        }
        let Value::Object(mut repaired_arguments) = decoded_value else {
            return Ok(Err(violation));
        };
        match self.read_arguments(&mut repaired_arguments, nulls, &budget)? {
            Ok(()) => {
                *arguments = repaired_arguments;
                Ok(Ok(true))
            }
            Err(_) => Ok(Err(violation)),
        }
    }
}

/// Replaces strings in `value` by the JSON values that they contain, where the schema does not
/// allow a string. Returns whether any string was replaced.
fn decode_texts<'s>(
    reader: &mut SchemaReader<'s>,
    mut location: ValueLocation<'s>,
    value: &mut Value,
) -> bool {
    let mut is_changed = false;
    if let Value::String(text) = value
        && let Some(json) = decode_text(text, location.types())
    {
        *value = json;
        is_changed = true;
    }
    match value {
        Value::Array(items) => {
            for (index, item) in items.iter_mut().enumerate() {
                let element_location = reader.element_location(&location, index);
                is_changed |= decode_texts(reader, element_location, item);
            }
        }
        Value::Object(members) => {
            reader.narrow(&mut location, members);
            for (name, member) in members.iter_mut() {
                let member_location = reader.member_location(&location, name);
                is_changed |= decode_texts(reader, member_location, member);
            }
        }
        _ => {}
    }
    is_changed
}

/// Returns the JSON value that a text contains, if the value has one of the `types`. Returns `None`
/// if the `types` include strings, because the text itself is then allowed.
fn decode_text(text: &str, types: JsonTypes) -> Option<Value> {
    if types & STRING != 0 {
        return None;
    }
    let mut text = text.to_owned();
    for _ in 0..MAX_ENCODINGS {
        match json_values::from_str(&text) {
            Ok(Value::String(inner_text)) => text = inner_text,
            Ok(value) => return is_allowed(&text, &value, types).then_some(value),
            Err(_) => break,
        }
    }
    // Some models write booleans as Python does.
    match text.trim() {
        "True" if types & BOOLEAN != 0 => Some(Value::Bool(true)),
        "False" if types & BOOLEAN != 0 => Some(Value::Bool(false)),
        _ => None,
    }
}

fn is_allowed(text: &str, value: &Value, types: JsonTypes) -> bool {
    let allowed_types = match value {
        // PHP encodes an empty array as `[]` even if the array represents an object.
        Value::Array(items) if items.is_empty() && types & OBJECT != 0 => types | ARRAY,
        // An integer that is too large was parsed as a float, which may have lost digits.
        Value::Number(number) if number.is_f64() => {
            let is_integer = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
            let digits = text.trim();
            if is_integer(digits.strip_prefix('-').unwrap_or(digits)) {
                0
            } else {
                types
            }
        }
        _ => types,
    };
    allowed_types & value_type(value) != 0
}

#[cfg(test)]
mod tests;
