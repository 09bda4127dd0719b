//! The form of a schema that strict readers of JSON Schema 2020-12 accept.

use std::borrow::Cow;
use std::collections::HashSet;

use serde_json::{Map, Value, json};

use super::dialect::OldForms;
use super::keywords::{SubschemaKind, TYPE_NAMES, subschemas, subschemas_mut};

#[cfg(test)]
mod tests;

/// Returns the schema in a form that strict readers of JSON Schema 2020-12 accept, because a
/// provider rejects a whole request if it cannot read one of the schemas.
///
/// - A schema that declares an older dialect gets the form of 2020-12.
/// - A keyword with a value that 2020-12 does not allow is removed, and so is a reference to
///   another document or to a location that does not exist. A value that is not a schema, where a
///   schema is required, becomes `{}`.
///
/// The result may allow values that the original schema rejects.
///
/// ```
/// use serde_json::json;
/// let schema = json!({
///     "$schema": "http://json-schema.org/draft-04/schema#",
///     "properties": {
///         "n": {"type": "int", "minimum": 0, "exclusiveMinimum": true},
///         "pair": {"items": [{"type": "string"}, {}], "additionalItems": false, "anyOf": []},
///     },
/// });
/// let expected = json!({"properties": {
///     "n": {"exclusiveMinimum": 0},
///     "pair": {"prefixItems": [{"type": "string"}, {}], "items": false},
/// }});
/// assert_eq!(*pillion_schema::to_portable_schema(&schema), expected);
/// ```
#[must_use]
pub fn to_portable_schema(schema: &Value) -> Cow<'_, Value> {
    if is_portable(schema, schema) {
        return Cow::Borrowed(schema);
    }
    let mut portable_schema = schema.clone();
    if OldForms::default().convert_unsupported_forms(&mut portable_schema)
        && let Some(root) = portable_schema.as_object_mut()
    {
        root.shift_remove("$schema");
    }
    correct_schema(&mut portable_schema);
    let root = portable_schema.clone();
    remove_dangling_references(&mut portable_schema, &root);
    Cow::Owned(portable_schema)
}

fn is_portable(schema: &Value, root: &Value) -> bool {
    let Some(keywords) = schema.as_object() else {
        return is_schema(schema);
    };
    !is_dangling(keywords, root)
        && keywords.iter().all(|(keyword, value)| {
            // Besides schemas, `dependencies` may contain lists of property names.
            let mut schemas = subschemas(keyword, value).filter(|schema| !schema.is_array());
            is_well_formed(keyword, value) && schemas.all(|schema| is_portable(schema, root))
        })
}

fn is_schema(value: &Value) -> bool {
    value.is_object() || value.is_boolean()
}

/// Returns whether 2020-12 allows the value of the keyword, ignoring schemas in the value.
fn is_well_formed(keyword: &str, value: &Value) -> bool {
    match SubschemaKind::from_keyword(keyword) {
        SubschemaKind::Schema | SubschemaKind::SchemaOrList => return is_schema(value),
        SubschemaKind::List => {
            let list = value.as_array().filter(|list| !list.is_empty());
            return list.is_some_and(|list| list.iter().all(is_schema));
        }
        SubschemaKind::Map => {
            let is_member = |value: &Value| match keyword {
                "dependencies" => is_schema(value) || is_list_of_names(value),
                _ => is_schema(value),
            };
            let members = value.as_object();
            return members.is_some_and(|members| members.values().all(is_member));
        }
        SubschemaKind::NoSchema => {}
    }
    match keyword {
        "type" => match value {
            Value::Array(names) => {
                !names.is_empty() && is_list_of_names(value) && names.iter().all(is_type)
            }
            name => is_type(name),
        },
        "enum" => value.as_array().is_some_and(|values| !values.is_empty()),
        "examples" => value.is_array(),
        "required" => is_list_of_names(value),
        "dependentRequired" => {
            let members = value.as_object();
            members.is_some_and(|members| members.values().all(is_list_of_names))
        }
        "multipleOf" => value.as_f64().is_some_and(|number| number > 0.0),
        "exclusiveMaximum" | "exclusiveMinimum" | "maximum" | "minimum" => value.is_number(),
        "maxContains" | "maxItems" | "maxLength" | "maxProperties" | "minContains" | "minItems"
        | "minLength" | "minProperties" => {
            let number = value.as_f64();
            number.is_some_and(|number| number >= 0.0 && number.fract() == 0.0)
        }
        "deprecated" | "readOnly" | "uniqueItems" | "writeOnly" => value.is_boolean(),
        "$comment" | "$dynamicRef" | "$recursiveRef" | "$ref" | "$schema" | "contentEncoding"
        | "contentMediaType" | "description" | "format" | "pattern" | "title" => value.is_string(),
        "$anchor" | "$dynamicAnchor" | "$recursiveAnchor" => value.as_str().is_some_and(is_anchor),
        "$id" => {
            let id = value.as_str();
            id.is_some_and(|id| !id.strip_suffix('#').unwrap_or(id).contains('#'))
        }
        "$vocabulary" => false,
        _ => true,
    }
}

fn is_type(name: &Value) -> bool {
    name.as_str().is_some_and(|name| TYPE_NAMES.contains(&name))
}

fn is_list_of_names(value: &Value) -> bool {
    let Some(names) = value.as_array() else {
        return false;
    };
    let mut unique_names = HashSet::new();
    names
        .iter()
        .all(|name| name.as_str().is_some_and(|name| unique_names.insert(name)))
}

fn is_anchor(name: &str) -> bool {
    let is_valid_start = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_';
    let is_valid_byte = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    name.bytes().next().is_some_and(is_valid_start) && name.bytes().all(is_valid_byte)
}

fn correct_schema(schema: &mut Value) {
    let Value::Object(keywords) = schema else {
        if !is_schema(schema) {
            *schema = json!({});
        }
        return;
    };
    keywords.retain(|keyword, value| {
        match (SubschemaKind::from_keyword(keyword), &mut *value) {
            (SubschemaKind::NoSchema, Value::Array(names)) if keyword == "required" => {
                let mut unique_names = HashSet::new();
                names.retain(|name| {
                    name.as_str()
                        .is_some_and(|name| unique_names.insert(name.to_owned()))
                });
            }
            (SubschemaKind::List, Value::Array(schemas)) => {
                schemas.iter_mut().for_each(correct_schema);
            }
            (SubschemaKind::Map, Value::Object(schemas)) => {
                let is_list_of_dependencies =
                    |member: &Value| keyword == "dependencies" && is_list_of_names(member);
                let members = schemas.values_mut();
                members
                    .filter(|member| !is_list_of_dependencies(member))
                    .for_each(correct_schema);
            }
            (SubschemaKind::Schema | SubschemaKind::SchemaOrList, schema @ Value::Object(_)) => {
                correct_schema(schema);
            }
            _ => {}
        }
        is_well_formed(keyword, value)
    });
}

/// Returns whether the reference of a schema leads out of the document, or to a location that does
/// not exist.
fn is_dangling(keywords: &Map<String, Value>, root: &Value) -> bool {
    let Some(reference) = keywords.get("$ref").and_then(Value::as_str) else {
        return false;
    };
    let Some(fragment) = reference.strip_prefix('#') else {
        return true;
    };
    let pointer = percent_encoding::percent_decode_str(fragment).decode_utf8_lossy();
    pointer.starts_with('/') && !root.pointer(&pointer).is_some_and(is_schema)
}

fn remove_dangling_references(schema: &mut Value, root: &Value) {
    let Value::Object(keywords) = schema else {
        return;
    };
    if is_dangling(keywords, root) {
        keywords.shift_remove("$ref");
    }
    for (keyword, value) in keywords {
        for schema in subschemas_mut(keyword, value) {
            remove_dangling_references(schema, root);
        }
    }
}
