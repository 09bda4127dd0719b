//! The form of a schema that strict readers of JSON Schema 2020-12 accept.

use std::borrow::Cow;
use std::collections::HashSet;

use serde_json::{Map, Value, json};

use super::dialect::OldForms;
use super::keywords::{SubschemaKind, TYPES, subschemas, subschemas_mut};

#[cfg(test)]
mod tests;

/// Returns the schema in a form that strict readers of JSON Schema 2020-12 accept: a provider
/// rejects a whole request because of one schema that the provider cannot read.
///
/// - A schema that declares an older dialect gets the form of 2020-12.
/// - A keyword with a value that 2020-12 does not allow is removed, and so is a reference that leads
///   out of the schema or nowhere. A member that is not a schema becomes `{}`.
///
/// The result may allow more than the schema.
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
/// assert_eq!(*pillion_schema::portable(&schema), expected);
/// ```
#[must_use]
pub fn portable(schema: &Value) -> Cow<'_, Value> {
    if is_portable(schema, schema) {
        return Cow::Borrowed(schema);
    }
    let mut copy = schema.clone();
    if OldForms::default().convert_others(&mut copy)
        && let Some(root) = copy.as_object_mut()
    {
        root.shift_remove("$schema");
    }
    correct(&mut copy);
    let root = copy.clone();
    remove_dangling_references(&mut copy, &root);
    Cow::Owned(copy)
}

fn is_portable(schema: &Value, root: &Value) -> bool {
    let Some(keywords) = schema.as_object() else {
        return is_schema(schema);
    };
    !is_dangling(keywords, root)
        && keywords.iter().all(|(keyword, value)| {
            // The schemas in `dependencies` may be mixed with lists of names.
            let mut schemas = subschemas(keyword, value).filter(|it| !it.is_array());
            is_well_formed(keyword, value) && schemas.all(|schema| is_portable(schema, root))
        })
}

fn is_schema(value: &Value) -> bool {
    value.is_object() || value.is_boolean()
}

/// Returns whether 2020-12 allows the value of the keyword, ignoring schemas in the value.
fn is_well_formed(keyword: &str, value: &Value) -> bool {
    match SubschemaKind::from_keyword(keyword) {
        SubschemaKind::Schema | SubschemaKind::Either => return is_schema(value),
        SubschemaKind::List => {
            let list = value.as_array().filter(|list| !list.is_empty());
            return list.is_some_and(|list| list.iter().all(is_schema));
        }
        SubschemaKind::Named => {
            let is_member = |value: &Value| match keyword {
                "dependencies" => is_schema(value) || is_list_of_names(value),
                _ => is_schema(value),
            };
            let named = value.as_object();
            return named.is_some_and(|named| named.values().all(is_member));
        }
        SubschemaKind::Nothing => {}
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
            let named = value.as_object();
            named.is_some_and(|named| named.values().all(is_list_of_names))
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
    name.as_str().is_some_and(|name| TYPES.contains(&name))
}

fn is_list_of_names(value: &Value) -> bool {
    let Some(names) = value.as_array() else {
        return false;
    };
    let mut seen = HashSet::new();
    names
        .iter()
        .all(|name| name.as_str().is_some_and(|name| seen.insert(name)))
}

fn is_anchor(name: &str) -> bool {
    let is_first = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_';
    let is_further = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    name.bytes().next().is_some_and(is_first) && name.bytes().all(is_further)
}

fn correct(schema: &mut Value) {
    let Value::Object(keywords) = schema else {
        if !is_schema(schema) {
            *schema = json!({});
        }
        return;
    };
    keywords.retain(|keyword, value| {
        match (SubschemaKind::from_keyword(keyword), &mut *value) {
            (SubschemaKind::Nothing, Value::Array(names)) if keyword == "required" => {
                let mut seen = HashSet::new();
                names.retain(|name| {
                    name.as_str()
                        .is_some_and(|name| seen.insert(name.to_owned()))
                });
            }
            (SubschemaKind::List, Value::Array(schemas)) => schemas.iter_mut().for_each(correct),
            (SubschemaKind::Named, Value::Object(named)) => {
                let has_names =
                    |member: &Value| keyword == "dependencies" && is_list_of_names(member);
                let schemas = named.values_mut().filter(|member| !has_names(member));
                schemas.for_each(correct);
            }
            (SubschemaKind::Schema | SubschemaKind::Either, schema @ Value::Object(_)) => {
                correct(schema);
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
