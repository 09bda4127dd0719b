//! Corrects values that do not match their schema but whose meaning is clear.

use serde_json::{Map, Value};

use super::CheckAborted;
use super::alternatives::{ARRAY, MAX_STEPS, NULL, OBJECT, SchemaReader, ValueLocation};
use super::keywords::SubschemaKind;

/// What `null` means as the value of an optional parameter whose schema does not allow it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OptionalNull {
    /// `null` is an invalid value, like any other value of the wrong type.
    #[default]
    Invalid,
    /// `null` means that the parameter is absent. With OpenAI's `strict`, a model must send every
    /// parameter, and sends `null` for an absent parameter.
    Absent,
}

/// Returns the intended form of `value`, if that differs from `value`:
///
/// - `[]` becomes `{}` where the schema allows objects but no arrays, because PHP encodes an empty
///   array as `[]` even if the array represents an object
/// - an optional member whose schema does not allow `null` is removed if it is `null`, depending on
///   `nulls`
///
/// # Errors
/// [`CheckAborted::TimeLimit`] if `max_steps` is given and reading the schema takes more than
/// `max_steps` steps.
pub(super) fn coerce_value(
    schema: &Value,
    value: &Value,
    nulls: OptionalNull,
    max_steps: Option<u32>,
) -> Result<Option<Value>, CheckAborted> {
    let may_need_coercion = |value: &Value| is_empty_list(value) || value.is_null();
    if !contains_match(value, &may_need_coercion) {
        return Ok(None);
    }
    let mut coerced_value = value.clone();
    let mut reader = SchemaReader::new(schema, max_steps.unwrap_or(MAX_STEPS));
    let location = reader.root_location(schema);
    coerce_nested(&mut reader, location, &mut coerced_value, nulls);
    if max_steps.is_some() && reader.is_exhausted() {
        return Err(CheckAborted::TimeLimit);
    }
    Ok((coerced_value != *value).then_some(coerced_value))
}

/// Replaces `[]` by `{}` in each `default` whose schema allows objects but no arrays, because PHP
/// encodes an empty array as `[]` even if the array represents an object. If a schema has a huge
/// number of such defaults, only some of them are replaced.
pub fn coerce_defaults(schema: &mut Value) {
    let mut defaults = DefaultPointers::default();
    find_defaults(schema, &mut String::new(), &mut defaults);
    let mut steps_left = MAX_STEPS;
    for pointer in defaults.pointers {
        let Some(subschema) = schema.pointer(&pointer) else {
            continue;
        };
        let Some(mut default) = subschema.get("default").cloned() else {
            continue;
        };
        let mut reader = SchemaReader::new(schema, steps_left);
        let location = reader.root_location(subschema);
        coerce_nested(&mut reader, location, &mut default, OptionalNull::Invalid);
        steps_left = reader.steps_left();
        if reader.is_exhausted() {
            return;
        }
        if let Some(subschema) = schema.pointer_mut(&pointer) {
            subschema["default"] = default;
        }
    }
}

/// Maximum total length of the JSON pointers to defaults, in bytes. The length is limited because
/// property names in a pointer may be long.
const MAX_POINTER_BYTES: usize = 1024 * 1024;

/// The pointers of the subschemas whose default contains an empty list.
#[derive(Default)]
struct DefaultPointers {
    pointers: Vec<String>,
    bytes: usize,
}

fn coerce_nested<'s>(
    reader: &mut SchemaReader<'s>,
    mut location: ValueLocation<'s>,
    value: &mut Value,
    nulls: OptionalNull,
) {
    if is_empty_list(value) && location.types() & (OBJECT | ARRAY) == OBJECT {
        *value = Value::Object(Map::new());
    }
    match value {
        Value::Array(items) => {
            for (index, item) in items.iter_mut().enumerate() {
                let child_location = reader.element_location(&location, index);
                coerce_nested(reader, child_location, item, nulls);
            }
        }
        Value::Object(members) => {
            reader.narrow(&mut location, members);
            members.retain(|name, member| {
                let child_location = reader.member_location(&location, name);
                if nulls == OptionalNull::Absent
                    && member.is_null()
                    && child_location.types() & NULL == 0
                    && !reader.is_required(&location, name)
                {
                    return false;
                }
                coerce_nested(reader, child_location, member, nulls);
                true
            });
        }
        _ => {}
    }
}

fn is_empty_list(value: &Value) -> bool {
    value.as_array().is_some_and(Vec::is_empty)
}

fn contains_match(value: &Value, predicate: &impl Fn(&Value) -> bool) -> bool {
    predicate(value)
        || match value {
            Value::Array(items) => items.iter().any(|item| contains_match(item, predicate)),
            Value::Object(members) => members.values().any(|item| contains_match(item, predicate)),
            _ => false,
        }
}

/// Collects the pointers of the subschemas whose default contains an empty list.
fn find_defaults(schema: &Value, path: &mut String, defaults: &mut DefaultPointers) {
    let Value::Object(entries) = schema else {
        return;
    };
    let default = entries.get("default");
    if default.is_some_and(|default| contains_match(default, &is_empty_list)) {
        defaults.bytes += path.len();
        if defaults.bytes > MAX_POINTER_BYTES {
            return;
        }
        defaults.pointers.push(path.clone());
    }
    let mut visit_child = |keys: &[&str], schema: &Value| {
        let parent_length = path.len();
        for key in keys {
            path.push('/');
            path.push_str(&key.replace('~', "~0").replace('/', "~1"));
        }
        find_defaults(schema, path, defaults);
        path.truncate(parent_length);
    };
    for (keyword, value) in entries {
        match (SubschemaKind::from_keyword(keyword), value) {
            (SubschemaKind::Schema | SubschemaKind::SchemaOrList, Value::Object(_)) => {
                visit_child(&[keyword], value);
            }
            (SubschemaKind::List | SubschemaKind::SchemaOrList, Value::Array(schemas)) => {
                for (index, schema) in schemas.iter().enumerate() {
                    visit_child(&[keyword, &index.to_string()], schema);
                }
            }
            (SubschemaKind::Map, Value::Object(schemas)) => {
                for (name, schema) in schemas {
                    visit_child(&[keyword, name], schema);
                }
            }
            _ => {}
        }
    }
}
