use serde_json::{Value, json};

use super::resolve::ResolvedNode;
use pillion_core::tool::{JsonObject, ParameterType};

/// Checks whether a value is allowed for a keyword.
pub(super) type ValueCheck = fn(&Value) -> bool;

/// The types of Gemini's `Schema`, except `null`, which is represented by `nullable`.
const SCHEMA_TYPES: [ParameterType; 6] = [
    ParameterType::String,
    ParameterType::Number,
    ParameterType::Integer,
    ParameterType::Boolean,
    ParameterType::Array,
    ParameterType::Object,
];

/// Returns the keywords that depend on the type, with a check of their values. Defaults are limited
/// to scalars, because Gemini ignores defaults and copying large defaults is wasteful.
pub(super) fn keywords(kind: ParameterType) -> &'static [(&'static str, ValueCheck)] {
    match kind {
        ParameterType::String => &[
            ("default", Value::is_string),
            ("format", |value| value == "date-time"),
            ("minLength", Value::is_u64),
            ("maxLength", Value::is_u64),
            ("pattern", Value::is_string),
        ],
        ParameterType::Number => &[
            ("default", Value::is_number),
            ("format", |value| value == "float" || value == "double"),
            ("minimum", Value::is_number),
            ("maximum", Value::is_number),
        ],
        ParameterType::Integer => &[
            ("default", is_integer),
            ("format", |value| value == "int32" || value == "int64"),
            ("minimum", Value::is_number),
            ("maximum", Value::is_number),
        ],
        ParameterType::Boolean => &[("default", Value::is_boolean)],
        ParameterType::Array => &[("minItems", Value::is_u64), ("maxItems", Value::is_u64)],
        ParameterType::Object => &[
            ("minProperties", Value::is_u64),
            ("maxProperties", Value::is_u64),
        ],
    }
}

/// Returns the type that the keywords of a node without a type imply.
pub(super) fn infer_type(node: &ResolvedNode<'_>) -> ParameterType {
    let has_any = |keys: &[&str]| keys.iter().any(|key| node.get(key).is_some());
    if node.properties().next().is_some() || has_any(&["additionalProperties"]) {
        ParameterType::Object
    } else if node.items().is_some() {
        ParameterType::Array
    } else if let Some(values) = node.values() {
        find_common_type(&values)
    } else if has_any(&["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"]) {
        ParameterType::Number
    } else {
        ParameterType::String
    }
}

/// Returns the type that all values have in common; `String` if their types differ.
fn find_common_type(values: &[&Value]) -> ParameterType {
    let all_match =
        |is_type: ValueCheck| values.iter().all(|value| value.is_null() || is_type(value));
    if all_match(Value::is_string) {
        ParameterType::String
    } else if all_match(is_integer) {
        ParameterType::Integer
    } else if all_match(Value::is_number) {
        ParameterType::Number
    } else if all_match(Value::is_boolean) {
        ParameterType::Boolean
    } else {
        ParameterType::String
    }
}

/// Returns the type of a schema whose other keywords are dropped; `Object` if `type` is not the
/// name of one type.
pub(super) fn find_truncated_type(schema: &Value) -> ParameterType {
    let name = schema["type"].as_str().unwrap_or_default();
    name.parse().unwrap_or(ParameterType::Object)
}

fn is_integer(value: &Value) -> bool {
    value.is_i64() || value.is_u64()
}

/// Returns the declared types of a node, and whether they include `null`.
pub(super) fn declared_types(node: &ResolvedNode<'_>) -> (Vec<ParameterType>, bool) {
    let names: Vec<_> = match node.get("type") {
        Some(Value::String(name)) => vec![name.as_str()],
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    let has_name = |kind: &str| names.iter().any(|name| name.eq_ignore_ascii_case(kind));
    let types = SCHEMA_TYPES
        .into_iter()
        .filter(|kind| has_name(kind.as_str()))
        // `number` includes `integer`, so `integer` beside `number` is dropped.
        .filter(|kind| *kind != ParameterType::Integer || !has_name("number"))
        .collect();
    (types, has_name("null"))
}

/// Converts `exclusiveMinimum` and `exclusiveMaximum` to inclusive bounds, unless the schema has
/// inclusive bounds. Ignores the boolean form of draft 4, which accompanies an inclusive
/// bound.
pub(super) fn add_inclusive_bounds(
    node: &ResolvedNode<'_>,
    kind: ParameterType,
    output: &mut JsonObject,
) {
    for (exclusive, inclusive, step) in [
        ("exclusiveMinimum", "minimum", 1),
        ("exclusiveMaximum", "maximum", -1),
    ] {
        let Some(bound) = node.get(exclusive).filter(|bound| bound.is_number()) else {
            continue;
        };
        let inclusive_bound = match bound.as_i64().and_then(|bound| bound.checked_add(step)) {
            Some(shifted_bound) if kind == ParameterType::Integer => json!(shifted_bound),
            _ => bound.clone(),
        };
        output.entry(inclusive).or_insert(inclusive_bound);
    }
}
