//! Repairs schemas that other programs have written, where the meaning is certain.

use serde_json::{Map, Value, json};

use super::dialect::OldForms;
use super::keywords::{SubschemaKind, TYPE_NAMES};

/// The annotation of a parameter that is mirrored in an HTTP header (MCP 2026-07-28).
const HEADER_ANNOTATION: &str = "x-mcp-header";

/// Keywords that contain no schemas and cannot be `null`: many programs write `null` for an absent
/// keyword. `const` and `default` are not among these keywords.
const NON_NULL_KEYWORDS: [&str; 29] = [
    "$anchor",
    "$comment",
    "$id",
    "$ref",
    "$schema",
    "contentEncoding",
    "contentMediaType",
    "dependentRequired",
    "deprecated",
    "description",
    "enum",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "format",
    "maxContains",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minContains",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "multipleOf",
    "pattern",
    "required",
    "title",
    "type",
];

/// Keywords that describe a schema or name parts of the schema. When the rest of a schema is moved
/// into an `anyOf`, these keywords stay in place, so that references to them remain valid.
const DESCRIPTIVE_KEYWORDS: [&str; 13] = [
    "$anchor",
    "$comment",
    "$defs",
    "$id",
    "$schema",
    "default",
    "definitions",
    "deprecated",
    "description",
    "examples",
    "readOnly",
    "title",
    "writeOnly",
];

/// Keywords that may reject `null` independently of `type` and `enum`.
const COMBINING_KEYWORDS: [&str; 9] = [
    "$dynamicRef",
    "$recursiveRef",
    "$ref",
    "allOf",
    "anyOf",
    "const",
    "if",
    "not",
    "oneOf",
];

/// Repairs the schema of an object at any depth, and returns whether the schema has changed:
///
/// - `[]` becomes `{}` where JSON Schema has a map or a schema, because PHP encodes an empty map as
///   `[]`
/// - `{}` becomes `[]` as the value of `required`, and an object with the keys `0`, `2`, ... becomes
///   a list where JSON Schema has one, because PHP encodes a list with gaps as an object
/// - `null` as the value of a keyword that cannot be `null` is removed, and is a schema without
///   constraints as a member of a map
/// - `nullable` of OpenAPI 3.0 is removed, and the schema allows `null` if `nullable` was `true`;
///   except at the root, whose values are objects, and for a parameter with `x-mcp-header`
/// - names of types get lower case (`"OBJECT"`), and a single name in `required` becomes a list
/// - `exclusiveMinimum: true` beside `minimum`, and a list in `items`, get the form of JSON Schema
///   2020-12, unless `$schema` names an older dialect that has these forms
///
/// Data, such as the values of `enum`, `const`, `default` and `examples`, and unknown keywords stay
/// unchanged. A root that is not an object stays unchanged, too.
///
/// ```
/// use pillion_schema::repair;
/// use serde_json::json;
/// let mut schema = json!({
///     "type": "object",
///     "properties": {"a": [], "n": {"type": "integer", "nullable": true, "default": []}},
///     "required": {},
/// });
/// assert!(repair(&mut schema));
/// let n = json!({"type": ["integer", "null"], "default": []});
/// let expected = json!({"type": "object", "properties": {"a": {}, "n": n}, "required": []});
/// assert_eq!(schema, expected);
/// ```
pub fn repair(schema: &mut Value) -> bool {
    let Value::Object(keywords) = schema else {
        return false;
    };
    let mut is_changed = keywords.shift_remove("nullable").is_some();
    repair_keywords(keywords, &mut is_changed);
    is_changed | OldForms::from_schema(schema).convert_unsupported_forms(schema)
}

fn repair_subschema(schema: &mut Value, is_changed: &mut bool) {
    if is_empty_list(schema) || schema.is_null() {
        *schema = json!({});
        *is_changed = true;
    }
    if let Value::Object(keywords) = schema {
        repair_keywords(keywords, is_changed);
        // An annotated parameter does not get `null` as a further type, because MCP clients drop a
        // tool whose annotated parameter has several types.
        if let Some(Value::Bool(nullable)) = keywords.get("nullable")
            && !keywords.contains_key(HEADER_ANNOTATION)
        {
            let is_nullable = *nullable;
            keywords.shift_remove("nullable");
            if is_nullable {
                allow_null(keywords);
            }
            *is_changed = true;
        }
    }
}

fn repair_keywords(keywords: &mut Map<String, Value>, is_changed: &mut bool) {
    let initial_count = keywords.len();
    keywords.retain(|keyword, value| {
        let is_absent = value.is_null()
            && (NON_NULL_KEYWORDS.contains(&keyword.as_str())
                || !SubschemaKind::from_keyword(keyword).has_no_schemas());
        !is_absent
    });
    *is_changed |= keywords.len() < initial_count;
    for (keyword, value) in keywords.iter_mut() {
        match SubschemaKind::from_keyword(keyword) {
            SubschemaKind::Schema => repair_subschema(value, is_changed),
            SubschemaKind::SchemaOrList => match value {
                Value::Array(schemas) if !schemas.is_empty() => {
                    schemas
                        .iter_mut()
                        .for_each(|schema| repair_subschema(schema, is_changed));
                }
                schema => repair_subschema(schema, is_changed),
            },
            SubschemaKind::List => {
                *is_changed |= convert_numbered_object(value);
                let schemas = value.as_array_mut().into_iter().flatten();
                schemas.for_each(|schema| repair_subschema(schema, is_changed));
            }
            SubschemaKind::Map => {
                *is_changed |= convert_empty_list(value);
                let schemas = value.as_object_mut().into_iter().flatten();
                schemas.for_each(|(_, schema)| repair_subschema(schema, is_changed));
            }
            SubschemaKind::NoSchema if keyword == "dependentRequired" => {
                *is_changed |= convert_empty_list(value);
                for (_, names) in value.as_object_mut().into_iter().flatten() {
                    *is_changed |= convert_to_list_of_names(names);
                }
            }
            SubschemaKind::NoSchema if keyword == "required" => {
                *is_changed |= convert_to_list_of_names(value);
            }
            SubschemaKind::NoSchema => {
                let is_list = matches!(keyword.as_str(), "enum" | "type");
                *is_changed |= is_list && convert_numbered_object(value);
                *is_changed |= keyword == "type" && correct_types(value);
            }
        }
    }
}

fn is_empty_list(value: &Value) -> bool {
    value.as_array().is_some_and(Vec::is_empty)
}

fn convert_empty_list(value: &mut Value) -> bool {
    let is_list = is_empty_list(value);
    if is_list {
        *value = json!({});
    }
    is_list
}

/// Writes the names of types in lower case: Google's schemas have capital letters.
fn correct_types(value: &mut Value) -> bool {
    match value {
        Value::String(name) => {
            let correct_name = TYPE_NAMES.iter().find(|type_name| {
                type_name.eq_ignore_ascii_case(name) && **type_name != name.as_str()
            });
            if let Some(correct_name) = correct_name {
                *name = (*correct_name).to_owned();
            }
            correct_name.is_some()
        }
        Value::Array(names) => {
            let changes = names.iter_mut().map(correct_types);
            changes.fold(false, std::ops::BitOr::bitor)
        }
        _ => false,
    }
}

fn convert_to_list_of_names(value: &mut Value) -> bool {
    if value.is_string() {
        *value = Value::Array(vec![value.take()]);
        return true;
    }
    let is_map = value.as_object().is_some_and(Map::is_empty);
    if is_map {
        *value = json!([]);
    }
    is_map || convert_numbered_object(value)
}

/// Converts an object whose keys are numbers to a list of its values.
fn convert_numbered_object(value: &mut Value) -> bool {
    let Value::Object(members) = value else {
        return false;
    };
    let is_number = |key: &String| !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_digit());
    if members.is_empty() || !members.keys().all(is_number) {
        return false;
    }
    *value = std::mem::take(members)
        .into_iter()
        .map(|(_, item)| item)
        .collect();
    true
}

/// Changes a schema so that it also allows `null`.
fn allow_null(keywords: &mut Map<String, Value>) {
    let is_present = |keyword: &&str| keywords.contains_key(*keyword);
    let combining_keywords: Vec<_> = COMBINING_KEYWORDS
        .iter()
        .copied()
        .filter(is_present)
        .collect();
    let is_typed = keywords.contains_key("type") || keywords.contains_key("enum");
    match combining_keywords[..] {
        [] => {}
        ["anyOf"] if !is_typed => return add_null_to_any_of(keywords),
        _ => return move_to_any_of(keywords),
    }
    if let Some(types) = keywords.get_mut("type") {
        match types {
            Value::String(name) if name != "null" => *types = json!([name, "null"]),
            Value::Array(names) if !names.contains(&json!("null")) => names.push(json!("null")),
            _ => {}
        }
    }
    if let Some(Value::Array(values)) = keywords.get_mut("enum")
        && !values.contains(&Value::Null)
    {
        values.push(Value::Null);
    }
}

fn add_null_to_any_of(keywords: &mut Map<String, Value>) {
    let null_schema = json!({"type": "null"});
    if let Some(Value::Array(schemas)) = keywords.get_mut("anyOf")
        && !schemas.contains(&null_schema)
    {
        schemas.push(null_schema);
    }
}

fn move_to_any_of(keywords: &mut Map<String, Value>) {
    let is_descriptive =
        |keyword: &str| DESCRIPTIVE_KEYWORDS.contains(&keyword) || keyword.starts_with("x-");
    let original_keywords = std::mem::take(keywords);
    let (descriptive_keywords, constraints): (Map<_, _>, Map<_, _>) = original_keywords
        .into_iter()
        .partition(|(keyword, _)| is_descriptive(keyword));
    *keywords = descriptive_keywords;
    let any_of = json!([constraints, {"type": "null"}]);
    keywords.insert("anyOf".to_owned(), any_of);
}

#[cfg(test)]
mod tests;
