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
    Wrong,
    /// `null` means that the parameter is absent. With OpenAI's `strict`, a model must send every
    /// parameter, and sends `null` for an absent parameter.
    LeftOut,
}

/// Returns the intended form of `value`, if that differs from `value`:
///
/// - `[]` becomes `{}` where the schema allows objects but no arrays, because PHP encodes an empty
///   object as `[]`
/// - an optional member whose schema does not allow `null` is removed if it is `null`, depending on
///   `nulls`
///
/// # Errors
/// [`CheckAborted::Time`] if reading the schema takes more than `max_steps` steps, if `max_steps`
/// is given.
pub(super) fn coerce_value(
    schema: &Value,
    value: &Value,
    nulls: OptionalNull,
    max_steps: Option<u32>,
) -> Result<Option<Value>, CheckAborted> {
    let may_need_mending = |value: &Value| is_empty_list(value) || value.is_null();
    if !contains(value, &may_need_mending) {
        return Ok(None);
    }
    let mut mended = value.clone();
    let mut reader = SchemaReader::new(schema, max_steps.unwrap_or(MAX_STEPS));
    let location = reader.location(schema);
    mend(&mut reader, location, &mut mended, nulls);
    if max_steps.is_some() && reader.is_exhausted() {
        return Err(CheckAborted::Time);
    }
    Ok((mended != *value).then_some(mended))
}

/// Replaces `[]` by `{}` in each `default` whose schema allows objects but no arrays, because PHP
/// encodes an empty object as `[]`. In a schema with a huge number of such defaults, only the first
/// ones are replaced.
pub fn coerce_defaults(schema: &mut Value) {
    let mut defaults = DefaultPointers::default();
    find_defaults(schema, &mut String::new(), &mut defaults);
    let mut steps_left = MAX_STEPS;
    for pointer in defaults.pointers {
        let Some(part) = schema.pointer(&pointer) else {
            continue;
        };
        let Some(mut mended) = part.get("default").cloned() else {
            continue;
        };
        let mut reader = SchemaReader::new(schema, steps_left);
        let location = reader.location(part);
        mend(&mut reader, location, &mut mended, OptionalNull::Wrong);
        steps_left = reader.steps_left();
        if reader.is_exhausted() {
            return;
        }
        if let Some(part) = schema.pointer_mut(&pointer) {
            part["default"] = mended;
        }
    }
}

/// Maximum total length of the pointers to defaults, in bytes. Property names in a pointer may be
/// long.
const MAX_POINTER_BYTES: usize = 1024 * 1024;

/// The pointers of the subschemas whose default contains an empty list.
#[derive(Default)]
struct DefaultPointers {
    pointers: Vec<String>,
    bytes: usize,
}

fn mend<'s>(
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
                let below = reader.element(&location, index);
                mend(reader, below, item, nulls);
            }
        }
        Value::Object(members) => {
            reader.narrow(&mut location, members);
            members.retain(|name, member| {
                let below = reader.member(&location, name);
                if nulls == OptionalNull::LeftOut
                    && member.is_null()
                    && below.types() & NULL == 0
                    && !reader.requires(&location, name)
                {
                    return false;
                }
                mend(reader, below, member, nulls);
                true
            });
        }
        _ => {}
    }
}

fn is_empty_list(value: &Value) -> bool {
    value.as_array().is_some_and(Vec::is_empty)
}

fn contains(value: &Value, predicate: &impl Fn(&Value) -> bool) -> bool {
    predicate(value)
        || match value {
            Value::Array(items) => items.iter().any(|item| contains(item, predicate)),
            Value::Object(members) => members.values().any(|member| contains(member, predicate)),
            _ => false,
        }
}

/// Collects the pointers of the subschemas whose default contains an empty list.
fn find_defaults(schema: &Value, path: &mut String, defaults: &mut DefaultPointers) {
    let Value::Object(entries) = schema else {
        return;
    };
    let default = entries.get("default");
    if default.is_some_and(|default| contains(default, &is_empty_list)) {
        defaults.bytes += path.len();
        if defaults.bytes > MAX_POINTER_BYTES {
            return;
        }
        defaults.pointers.push(path.clone());
    }
    let mut below = |keys: &[&str], schema: &Value| {
        let length = path.len();
        for key in keys {
            path.push('/');
            path.push_str(&key.replace('~', "~0").replace('/', "~1"));
        }
        find_defaults(schema, path, defaults);
        path.truncate(length);
    };
    for (keyword, value) in entries {
        match (SubschemaKind::from_keyword(keyword), value) {
            (SubschemaKind::Schema | SubschemaKind::Either, Value::Object(_)) => {
                below(&[keyword], value);
            }
            (SubschemaKind::List | SubschemaKind::Either, Value::Array(schemas)) => {
                for (index, schema) in schemas.iter().enumerate() {
                    below(&[keyword, &index.to_string()], schema);
                }
            }
            (SubschemaKind::Named, Value::Object(named)) => {
                for (name, schema) in named {
                    below(&[keyword, name], schema);
                }
            }
            _ => {}
        }
    }
}
