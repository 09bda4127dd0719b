//! Converts a schema to the form that OpenAI's `strict` requires (documentation: "Structured
//! outputs: supported schemas"): every object is closed, every property is required, optional
//! properties are nullable, and there are no unsupported keywords.

#[cfg(test)]
mod tests;

use std::collections::HashSet;

use serde_json::{Map, Value, json};

/// Maximum number of properties of all objects.
const MAX_PROPERTIES: usize = 5_000;
/// Maximum nesting depth of objects and arrays.
const MAX_LEVELS: usize = 10;
/// Maximum total number of values of all enums.
const MAX_VALUES: usize = 1_000;
/// Maximum total length of all property names and enum values, in characters.
const MAX_CHARACTERS: usize = 120_000;

/// Annotations, which are dropped: OpenAI rejects some of them.
const ANNOTATIONS: [&str; 7] = [
    "$comment",
    "$schema",
    "default",
    "deprecated",
    "examples",
    "readOnly",
    "writeOnly",
];
/// Keywords that are copied unchanged, in addition to `format`.
const CONSTRAINTS: [&str; 11] = [
    "const",
    "description",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "maxItems",
    "maximum",
    "minItems",
    "minimum",
    "multipleOf",
    "pattern",
    "title",
];
const FORMATS: [&str; 9] = [
    "date",
    "date-time",
    "duration",
    "email",
    "hostname",
    "ipv4",
    "ipv6",
    "time",
    "uuid",
];

/// Converts `schema`, the object schema of a tool's arguments, to the `strict` form. Returns `None`
/// if that form cannot express the schema: free-form maps, tuples, `oneOf`, `allOf`, conditions,
/// unsupported keywords, or sizes beyond OpenAI's limits.
///
/// ```
/// use serde_json::json;
/// let schema = json!({"type": "object", "properties": {"city": {"type": "string"}}});
/// let expected = json!({
///     "type": "object",
///     "properties": {"city": {"type": ["string", "null"]}},
///     "required": ["city"],
///     "additionalProperties": false,
/// });
/// assert_eq!(pillion_schema::strict(&schema), Some(expected));
/// ```
pub fn strict(schema: &Value) -> Option<Value> {
    let entries = schema.as_object()?;
    if ["anyOf", "enum", "const", "$ref"]
        .iter()
        .any(|keyword| entries.contains_key(*keyword))
    {
        return None;
    }
    StrictWriter::default().part(schema, SubschemaPosition::Root)
}

/// Writes the strict form, and counts the properties, values and characters that OpenAI limits.
#[derive(Default)]
struct StrictWriter {
    properties: usize,
    values: usize,
    characters: usize,
}

/// The position of a subschema.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SubschemaPosition {
    Root,
    At(usize),
}

impl SubschemaPosition {
    fn level(self) -> usize {
        match self {
            Self::Root => 0,
            Self::At(level) => level,
        }
    }

    fn below(self) -> Self {
        Self::At(self.level() + 1)
    }

    /// Returns the position of one of several schemas for the same value; such a schema is not the
    /// root.
    fn sibling(self) -> Self {
        Self::At(self.level())
    }
}

impl StrictWriter {
    fn part(&mut self, schema: &Value, at: SubschemaPosition) -> Option<Value> {
        let schema = schema.as_object()?;
        if at.level() > MAX_LEVELS {
            return None;
        }
        let is_typed = ["type", "anyOf", "$ref"]
            .iter()
            .filter(|keyword| schema.contains_key(**keyword));
        if is_typed.count() != 1 {
            return None;
        }
        let mut written = Map::new();
        for (keyword, value) in schema {
            let converted = match keyword.as_str() {
                keyword if ANNOTATIONS.contains(&keyword) => continue,
                keyword if CONSTRAINTS.contains(&keyword) => value.clone(),
                "format" if FORMATS.contains(&value.as_str()?) => value.clone(),
                "type" => value.clone(),
                "enum" => self.values(value)?,
                "$ref" => reference(value)?,
                "anyOf" => {
                    let schemas = value.as_array().filter(|schemas| !schemas.is_empty())?;
                    let parts = schemas.iter().map(|part| self.part(part, at.sibling()));
                    Value::Array(parts.collect::<Option<_>>()?)
                }
                "items" => self.part(value, at.below())?,
                "$defs" | "definitions" if at == SubschemaPosition::Root => {
                    let parts = value.as_object()?.iter().map(|(name, part)| {
                        self.characters += name.len();
                        Some((name.clone(), self.part(part, SubschemaPosition::At(1))?))
                    });
                    Value::Object(parts.collect::<Option<_>>()?)
                }
                // `object` writes `properties`, `required` and `additionalProperties`.
                "properties" | "required" | "additionalProperties" => continue,
                _ => return None,
            };
            written.insert(keyword.clone(), converted);
        }
        if type_names(schema.get("type")).contains(&"array") && !schema.contains_key("items") {
            return None;
        }
        if type_names(schema.get("type")).contains(&"object") {
            self.object(schema, at, &mut written)?;
        } else if ["properties", "required", "additionalProperties"]
            .iter()
            .any(|keyword| schema.contains_key(*keyword))
        {
            return None;
        }
        let is_annotated = written.len() > 1 && written.contains_key("$ref");
        if is_annotated {
            // A `$ref` has no sibling keywords.
            let reference = written.shift_remove("$ref");
            written.insert("anyOf".to_owned(), json!([{ "$ref": reference }]));
        }
        let within_limits = self.properties <= MAX_PROPERTIES
            && self.values <= MAX_VALUES
            && self.characters <= MAX_CHARACTERS;
        within_limits.then_some(Value::Object(written))
    }

    fn object(
        &mut self,
        schema: &Map<String, Value>,
        at: SubschemaPosition,
        written: &mut Map<String, Value>,
    ) -> Option<()> {
        let none = Map::new();
        let properties = match schema.get("properties") {
            None => &none,
            Some(properties) => properties.as_object()?,
        };
        let is_closed = match schema.get("additionalProperties") {
            // A root object without properties accepts no properties.
            None => !properties.is_empty() || at == SubschemaPosition::Root,
            Some(others) => *others == json!(false),
        };
        let required = match schema.get("required") {
            None | Some(Value::Null) => HashSet::new(),
            Some(required) => {
                let names = required.as_array()?.iter().map(Value::as_str);
                names.collect::<Option<HashSet<_>>>()?
            }
        };
        if !is_closed || !required.iter().all(|name| properties.contains_key(*name)) {
            return None;
        }
        self.properties += properties.len();
        if self.properties > MAX_PROPERTIES {
            return None;
        }
        let mut all = Map::new();
        for (name, property) in properties {
            self.characters += name.len();
            let property = self.part(property, at.below())?;
            let is_required = required.contains(name.as_str());
            all.insert(
                name.clone(),
                if is_required {
                    property
                } else {
                    nullable(property)
                },
            );
        }
        let names = all.keys().cloned().collect();
        written.insert("properties".to_owned(), Value::Object(all));
        written.insert("required".to_owned(), names);
        written.insert("additionalProperties".to_owned(), json!(false));
        Some(())
    }

    fn values(&mut self, values: &Value) -> Option<Value> {
        let list = values.as_array().filter(|values| !values.is_empty())?;
        self.values += list.len();
        let texts = list.iter().filter_map(Value::as_str);
        self.characters += texts.map(str::len).sum::<usize>();
        Some(values.clone())
    }
}

/// Returns a reference to a definition or to the root. The conversion could invalidate other
/// references.
fn reference(target: &Value) -> Option<Value> {
    let text = target.as_str()?;
    let name = text
        .strip_prefix("#/$defs/")
        .or_else(|| text.strip_prefix("#/definitions/"));
    let is_right = text == "#" || name.is_some_and(|name| !name.contains('/'));
    is_right.then(|| target.clone())
}

fn type_names(types: Option<&Value>) -> Vec<&str> {
    match types {
        Some(Value::String(name)) => vec![name],
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

/// Extends a schema so that it also allows `null`.
fn nullable(mut schema: Value) -> Value {
    if let Some(parts) = schema.get_mut("anyOf").and_then(Value::as_array_mut) {
        if !parts
            .iter()
            .any(|part| type_names(part.get("type")).contains(&"null"))
        {
            parts.push(json!({"type": "null"}));
        }
        return schema;
    }
    let types = type_names(schema.get("type"));
    if types.is_empty() || schema.get("const").is_some() {
        return json!({"anyOf": [schema, {"type": "null"}]});
    }
    if !types.contains(&"null") {
        let nullable_types: Vec<_> = types.into_iter().chain(["null"]).collect();
        schema["type"] = json!(nullable_types);
    }
    if let Some(values) = schema.get_mut("enum").and_then(Value::as_array_mut)
        && !values.contains(&Value::Null)
    {
        values.push(Value::Null);
    }
    schema
}
