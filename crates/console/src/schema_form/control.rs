//! Chooses the control for the values of a JSON Schema.

use std::collections::HashSet;

use pillion_core::truncated;
use serde_json::{Map, Value};

/// Maximum depth of nested objects, lists and alternatives that have separate controls.
const MAX_DEPTH: usize = 5;

/// Maximum number of values in the selection of an `enum`.
const MAX_OPTIONS: usize = 200;

/// Maximum length of a value or a title in the selection of an `enum`, in bytes.
const MAX_OPTION_BYTES: usize = 100;

/// Maximum length of the name of a property that has a separate control, in bytes. The names of the
/// controls within a property contain its name.
const MAX_NAME_BYTES: usize = 100;

/// Maximum number of alternatives of a `oneOf` or `anyOf` that have separate controls.
const MAX_ALTERNATIVES: usize = 10;

/// Maximum length of the label of an alternative, in bytes.
const MAX_LABEL_BYTES: usize = 60;

/// The kind of control for a value.
pub(super) enum Control<'s> {
    Object(ObjectSchema<'s>),
    List(&'s Value),
    /// One of several schemas; a selection decides which one applies.
    Alternatives(Vec<&'s Value>),
    /// One of several values, each with its title, if it has one.
    Options(Vec<(&'s Value, Option<&'s str>)>),
    Text,
    Number {
        is_integer: bool,
    },
    Boolean,
    Json,
}

/// The schema of an object with known properties.
#[derive(Clone, Copy)]
pub(super) struct ObjectSchema<'s> {
    schema: &'s Value,
    pub(super) properties: &'s Map<String, Value>,
}

impl<'s> ObjectSchema<'s> {
    /// Returns the names of the required properties.
    pub(super) fn required_names(self) -> HashSet<&'s str> {
        required_names(self.schema)
    }
}

impl<'s> Control<'s> {
    /// Chooses the control for values of `schema`, at `depth` objects and lists below the
    /// arguments.
    pub(super) fn for_schema(schema: &'s Value, depth: usize) -> Self {
        let schema = without_null(schema);
        if let Some(options) = find_options(schema) {
            return Self::Options(options);
        }
        let alternatives = find_alternatives(schema);
        if (2..=MAX_ALTERNATIVES).contains(&alternatives.len()) && depth < MAX_DEPTH {
            return Self::Alternatives(alternatives);
        }
        match find_type(schema) {
            "object" if depth < MAX_DEPTH => match schema.get("properties") {
                Some(Value::Object(properties))
                    if !properties.is_empty()
                        && properties.keys().all(|name| name.len() <= MAX_NAME_BYTES) =>
                {
                    Self::Object(ObjectSchema { schema, properties })
                }
                _ => Self::Json,
            },
            "array" if depth < MAX_DEPTH => schema
                .get("items")
                .filter(|items| items.is_object())
                .map_or(Self::Json, Self::List),
            "string" => Self::Text,
            "number" => Self::Number { is_integer: false },
            "integer" => Self::Number { is_integer: true },
            "boolean" => Self::Boolean,
            _ => Self::Json,
        }
    }
}

/// Returns the type of the values, without `null`; empty if there are several types or none.
fn find_type(schema: &Value) -> &str {
    match schema.get("type") {
        Some(Value::String(name)) => name,
        Some(Value::Array(names)) => {
            let names = names.iter().filter_map(Value::as_str);
            let mut other_names = names.filter(|name| *name != "null");
            match (other_names.next(), other_names.next()) {
                (Some(name), None) => name,
                _ => "",
            }
        }
        _ => "",
    }
}

/// Returns the schema of the values other than `null`, if `oneOf` or `anyOf` has a single such
/// schema.
fn without_null(schema: &Value) -> &Value {
    let mut inner_schema = schema;
    for _ in 0..MAX_DEPTH {
        match find_alternatives(inner_schema)[..] {
            [only_schema] => inner_schema = only_schema,
            _ => break,
        }
    }
    inner_schema
}

/// Returns the schemas in `oneOf` or `anyOf`, without those of `null`. Empty if the schema itself
/// describes its values.
fn find_alternatives(schema: &Value) -> Vec<&Value> {
    let own_keywords = ["type", "properties", "enum", "const"];
    if own_keywords.iter().any(|name| schema.get(name).is_some()) {
        return Vec::new();
    }
    let schemas = ["oneOf", "anyOf"]
        .iter()
        .find_map(|name| schema.get(name)?.as_array());
    schemas
        .into_iter()
        .flatten()
        .filter(|schema| schema.get("type").is_none_or(|name| name != "null"))
        .take(MAX_ALTERNATIVES + 1)
        .collect()
}

/// Returns the values that the schema lists, each with its title: those of `enum`, `const`, or a
/// `oneOf` or `anyOf` of constants. Returns `None` if a value or a title is long.
fn find_options(schema: &Value) -> Option<Vec<(&Value, Option<&str>)>> {
    let options = list_options(schema)?;
    let is_short = |&(value, title): &(&Value, Option<&str>)| {
        let value_bytes = match value {
            Value::String(text) => text.len(),
            value => value.to_string().len(),
        };
        value_bytes.max(title.map_or(0, str::len)) <= MAX_OPTION_BYTES
    };
    options.iter().all(is_short).then_some(options)
}

fn list_options(schema: &Value) -> Option<Vec<(&Value, Option<&str>)>> {
    if let Some(value) = schema.get("const") {
        return Some(vec![(value, None)]);
    }
    if let Some(Value::Array(values)) = schema.get("enum")
        && (1..=MAX_OPTIONS).contains(&values.len())
    {
        return Some(values.iter().map(|value| (value, None)).collect());
    }
    let schemas = ["oneOf", "anyOf"]
        .iter()
        .find_map(|name| schema.get(name)?.as_array())
        .filter(|schemas| (1..=MAX_OPTIONS).contains(&schemas.len()))?;
    let is_constant = |schema: &Value| schema.get("const").is_some();
    schemas.iter().all(is_constant).then(|| {
        let options = schemas.iter().filter_map(|schema| {
            let title = schema.get("title").and_then(Value::as_str);
            Some((schema.get("const")?, title))
        });
        options.collect()
    })
}

/// Returns the names of the properties that `schema` requires.
fn required_names(schema: &Value) -> HashSet<&str> {
    let names = schema.get("required").and_then(Value::as_array);
    names
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect()
}

/// Returns the value that a required property has if its control is empty: its only value, or
/// `null`.
pub(super) fn implied_value(schema: &Value) -> Option<Value> {
    let constant = schema.get("const").cloned();
    constant.or_else(|| is_nullable(schema).then_some(Value::Null))
}

/// Returns whether `null` is a value of the schema.
fn is_nullable(schema: &Value) -> bool {
    let names_null = |schema: &Value| match schema.get("type") {
        Some(Value::String(name)) => name == "null",
        Some(Value::Array(names)) => names.iter().any(|name| name == "null"),
        _ => false,
    };
    let schemas = ["oneOf", "anyOf"]
        .iter()
        .filter_map(|name| schema.get(name)?.as_array());
    names_null(schema)
        || schema.get("nullable") == Some(&Value::Bool(true))
        || schemas.flatten().any(names_null)
}

/// Returns whether a value seems to be meant for `schema`: it has the type, the required members
/// and the constant members. Does not validate the value.
pub(super) fn is_meant_for(schema: &Value, value: &Value) -> bool {
    let schema = without_null(schema);
    if let Some(options) = find_options(schema) {
        return options.iter().any(|(option, _)| *option == value);
    }
    let has_type = match schema.get("type") {
        Some(Value::String(name)) => is_of_type(value, name),
        Some(Value::Array(names)) => {
            let mut names = names.iter().filter_map(Value::as_str);
            names.any(|name| is_of_type(value, name))
        }
        _ => true,
    };
    let has_members = || {
        let Some(members) = value.as_object() else {
            return true;
        };
        let properties = schema.get("properties").and_then(Value::as_object);
        let mut constants = properties
            .into_iter()
            .flatten()
            .filter_map(|(name, property)| Some((members.get(name)?, property.get("const")?)));
        let mut names = required_names(schema).into_iter();
        names.all(|name| members.contains_key(name))
            && constants.all(|(member, constant)| member == constant)
    };
    has_type && has_members()
}

fn is_of_type(value: &Value, name: &str) -> bool {
    match name {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        _ => value.is_null(),
    }
}

/// Returns the label of an alternative: its title, its first constant, or its type.
pub(super) fn alternative_label(schema: &Value, index: usize) -> String {
    let title = schema.get("title").and_then(Value::as_str);
    let first_constant = || {
        let mut properties = schema.get("properties")?.as_object()?.values();
        properties.find_map(|property| property.get("const")?.as_str())
    };
    let type_name = Some(find_type(schema)).filter(|name| !name.is_empty());
    let label = title
        .or_else(first_constant)
        .or(type_name)
        .unwrap_or("JSON");
    format!("{}. {}", index + 1, truncated(label, MAX_LABEL_BYTES))
}
