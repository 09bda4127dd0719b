//! Repairs schemas that other programs have written, where the meaning is certain.

use serde_json::{Map, Value, json};

use super::dialect::OldForms;
use super::keywords::{SubschemaKind, TYPES};

/// The annotation of a parameter that is mirrored in an HTTP header (MCP 2026-07-28).
const HEADER_ANNOTATION: &str = "x-mcp-header";

/// Keywords that contain no schemas and cannot be `null`: many programs write `null` for an absent
/// keyword. `const` and `default` are not among these keywords.
const NEVER_NULL: [&str; 29] = [
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

/// Keywords that describe a schema or name parts of the schema. These keywords stay beside an
/// `anyOf` into which the rest of the schema moves, so that references still lead to them.
const DESCRIPTIVE: [&str; 13] = [
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
const COMBINING: [&str; 9] = [
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

/// Repairs the schema of an object at any depth, and returns whether it has changed:
///
/// - `[]` becomes `{}` where JSON Schema has a map or a schema, because PHP encodes an empty map as
///   `[]`
/// - `{}` becomes `[]` as the value of `required`, and an object with the keys `0`, `2`, ... becomes
///   a list where JSON Schema has one, because PHP encodes a list with gaps as an object
/// - `null` as the value of a keyword that cannot be `null` is removed, and is a schema without
///   constraints as a member of a map
/// - `nullable` of OpenAPI 3.0 is removed, and the schema allows `null` if it was `true`; except at
///   the root, whose values are objects, and for a parameter with `x-mcp-header`
/// - names of types get lower case (`"OBJECT"`), and a single name in `required` becomes a list
/// - `exclusiveMinimum: true` beside `minimum`, and a list in `items`, get the form of JSON Schema
///   2020-12, unless `$schema` names an older dialect that has them
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
    is_changed | OldForms::from_schema(schema).convert_others(schema)
}

fn repair_subschema(schema: &mut Value, is_changed: &mut bool) {
    if is_empty_list(schema) || schema.is_null() {
        *schema = json!({});
        *is_changed = true;
    }
    if let Value::Object(keywords) = schema {
        repair_keywords(keywords, is_changed);
        // MCP clients drop a tool with an annotated parameter of several types.
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
    let before = keywords.len();
    keywords.retain(|keyword, value| {
        let is_absent = value.is_null()
            && (NEVER_NULL.contains(&keyword.as_str())
                || !SubschemaKind::from_keyword(keyword).is_nothing());
        !is_absent
    });
    *is_changed |= keywords.len() < before;
    for (keyword, value) in keywords.iter_mut() {
        match SubschemaKind::from_keyword(keyword) {
            SubschemaKind::Schema => repair_subschema(value, is_changed),
            SubschemaKind::Either => match value {
                Value::Array(schemas) if !schemas.is_empty() => {
                    schemas
                        .iter_mut()
                        .for_each(|schema| repair_subschema(schema, is_changed));
                }
                schema => repair_subschema(schema, is_changed),
            },
            SubschemaKind::List => {
                *is_changed |= close_gaps(value);
                let schemas = value.as_array_mut().into_iter().flatten();
                schemas.for_each(|schema| repair_subschema(schema, is_changed));
            }
            SubschemaKind::Named => {
                *is_changed |= make_map(value);
                let schemas = value.as_object_mut().into_iter().flatten();
                schemas.for_each(|(_, schema)| repair_subschema(schema, is_changed));
            }
            SubschemaKind::Nothing if keyword == "dependentRequired" => {
                *is_changed |= make_map(value);
                for (_, names) in value.as_object_mut().into_iter().flatten() {
                    *is_changed |= make_list_of_names(names);
                }
            }
            SubschemaKind::Nothing if keyword == "required" => {
                *is_changed |= make_list_of_names(value);
            }
            SubschemaKind::Nothing => {
                let is_list = matches!(keyword.as_str(), "enum" | "type");
                *is_changed |= is_list && close_gaps(value);
                *is_changed |= keyword == "type" && correct_types(value);
            }
        }
    }
}

fn is_empty_list(value: &Value) -> bool {
    value.as_array().is_some_and(Vec::is_empty)
}

fn make_map(value: &mut Value) -> bool {
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
            let correct = TYPES
                .iter()
                .find(|known| known.eq_ignore_ascii_case(name) && **known != name.as_str());
            if let Some(correct) = correct {
                *name = (*correct).to_owned();
            }
            correct.is_some()
        }
        Value::Array(names) => {
            let changed = names.iter_mut().map(correct_types);
            changed.fold(false, std::ops::BitOr::bitor)
        }
        _ => false,
    }
}

fn make_list_of_names(value: &mut Value) -> bool {
    if value.is_string() {
        *value = Value::Array(vec![value.take()]);
        return true;
    }
    let is_map = value.as_object().is_some_and(Map::is_empty);
    if is_map {
        *value = json!([]);
    }
    is_map || close_gaps(value)
}

/// Converts an object whose keys are numbers to a list of its values.
fn close_gaps(value: &mut Value) -> bool {
    let Value::Object(members) = value else {
        return false;
    };
    let is_number = |key: &String| !key.is_empty() && key.bytes().all(|it| it.is_ascii_digit());
    if members.is_empty() || !members.keys().all(is_number) {
        return false;
    }
    let members = std::mem::take(members);
    *value = members.into_iter().map(|(_, item)| item).collect();
    true
}

/// Changes a schema so that it also allows `null`.
fn allow_null(keywords: &mut Map<String, Value>) {
    let combines = |keyword: &&str| keywords.contains_key(*keyword);
    let combining: Vec<_> = COMBINING.iter().copied().filter(combines).collect();
    let is_typed = keywords.contains_key("type") || keywords.contains_key("enum");
    match combining[..] {
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
    let null = json!({"type": "null"});
    if let Some(Value::Array(schemas)) = keywords.get_mut("anyOf")
        && !schemas.contains(&null)
    {
        schemas.push(null);
    }
}

fn move_to_any_of(keywords: &mut Map<String, Value>) {
    let is_descriptive =
        |keyword: &str| DESCRIPTIVE.contains(&keyword) || keyword.starts_with("x-");
    let all = std::mem::take(keywords);
    let (descriptive, others): (Map<_, _>, Map<_, _>) = all
        .into_iter()
        .partition(|(keyword, _)| is_descriptive(keyword));
    *keywords = descriptive;
    let any_of = json!([others, {"type": "null"}]);
    keywords.insert("anyOf".to_owned(), any_of);
}

#[cfg(test)]
mod tests;
