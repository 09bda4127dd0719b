//! Corrects values that do not match their schema but whose meaning is clear.

use serde_json::{Map, Value};

use super::CheckAborted;
use super::alternatives::{ARRAY, MAX_STEPS, NULL, OBJECT, SchemaLocation, SchemaReader};
use super::keywords::SubschemaKind;

/// What `null` means as the value of an optional parameter whose schema does not allow it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OptionalNull {
    /// Invalid, as a value of the wrong type.
    #[default]
    Wrong,
    /// The parameter is absent. With OpenAI's `strict`, a model must send every parameter, and
    /// sends `null` for an absent one.
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
/// [`CheckAborted::Time`] if reading the schema takes more than `most_steps` steps, if that limit
/// is given.
pub(super) fn coerce_value(
    schema: &Value,
    value: &Value,
    nulls: OptionalNull,
    most_steps: Option<u32>,
) -> Result<Option<Value>, CheckAborted> {
    let is_odd = |value: &Value| is_empty_list(value) || value.is_null();
    if !holds(value, &is_odd) {
        return Ok(None);
    }
    let mut mended = value.clone();
    let mut reader = SchemaReader::new(schema, most_steps.unwrap_or(MAX_STEPS));
    let place = reader.place(schema);
    mend(&mut reader, place, &mut mended, nulls);
    if most_steps.is_some() && reader.is_exhausted() {
        return Err(CheckAborted::Time);
    }
    Ok((mended != *value).then_some(mended))
}

/// Replaces `[]` by `{}` in each `default` whose schema allows objects but no arrays, because PHP
/// encodes an empty object as `[]`. Of a schema with a huge number of such defaults, the rest is left
/// unchanged.
pub fn coerce_defaults(schema: &mut Value) {
    let mut places = DefaultPlaces::default();
    find_defaults(schema, &mut String::new(), &mut places);
    let mut steps_left = MAX_STEPS;
    for place in places.pointers {
        let Some(part) = schema.pointer(&place) else {
            continue;
        };
        let Some(mut mended) = part.get("default").cloned() else {
            continue;
        };
        let mut reader = SchemaReader::new(schema, steps_left);
        let place_of_value = reader.place(part);
        mend(
            &mut reader,
            place_of_value,
            &mut mended,
            OptionalNull::Wrong,
        );
        steps_left = reader.steps_left();
        if reader.is_exhausted() {
            return;
        }
        if let Some(part) = schema.pointer_mut(&place) {
            part["default"] = mended;
        }
    }
}

/// Maximum total length of the pointers to defaults, in bytes: names may be long.
const MAX_POINTER_BYTES: usize = 1024 * 1024;

/// The pointers of the subschemas whose default contains an empty list.
#[derive(Default)]
struct DefaultPlaces {
    pointers: Vec<String>,
    bytes: usize,
}

fn mend<'s>(
    reader: &mut SchemaReader<'s>,
    mut place: SchemaLocation<'s>,
    value: &mut Value,
    nulls: OptionalNull,
) {
    if is_empty_list(value) && place.types() & (OBJECT | ARRAY) == OBJECT {
        *value = Value::Object(Map::new());
    }
    match value {
        Value::Array(items) => {
            for (index, item) in items.iter_mut().enumerate() {
                let place = reader.element(&place, index);
                mend(reader, place, item, nulls);
            }
        }
        Value::Object(members) => {
            reader.narrow(&mut place, members);
            members.retain(|name, member| {
                let below = reader.member(&place, name);
                if nulls == OptionalNull::LeftOut
                    && member.is_null()
                    && below.types() & NULL == 0
                    && !reader.requires(&place, name)
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

fn holds(value: &Value, wanted: &impl Fn(&Value) -> bool) -> bool {
    wanted(value)
        || match value {
            Value::Array(items) => items.iter().any(|item| holds(item, wanted)),
            Value::Object(members) => members.values().any(|member| holds(member, wanted)),
            _ => false,
        }
}

/// Collects the pointers of the subschemas whose default contains an empty list.
fn find_defaults(schema: &Value, path: &mut String, places: &mut DefaultPlaces) {
    let Value::Object(entries) = schema else {
        return;
    };
    let default = entries.get("default");
    if default.is_some_and(|default| holds(default, &is_empty_list)) {
        places.bytes += path.len();
        if places.bytes > MAX_POINTER_BYTES {
            return;
        }
        places.pointers.push(path.clone());
    }
    let mut below = |keys: &[&str], schema: &Value| {
        let length = path.len();
        for key in keys {
            path.push('/');
            path.push_str(&key.replace('~', "~0").replace('/', "~1"));
        }
        find_defaults(schema, path, places);
        path.truncate(length);
    };
    for (keyword, value) in entries {
        match (SubschemaKind::of(keyword), value) {
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
