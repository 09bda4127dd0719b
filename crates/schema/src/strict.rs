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
const ANNOTATION_KEYWORDS: [&str; 7] = [
    "$comment",
    "$schema",
    "default",
    "deprecated",
    "examples",
    "readOnly",
    "writeOnly",
];
/// Keywords that are copied unchanged, in addition to `format`.
const CONSTRAINT_KEYWORDS: [&str; 11] = [
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
const SUPPORTED_FORMATS: [&str; 9] = [
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
/// assert_eq!(pillion_schema::to_strict_schema(&schema), Some(expected));
/// ```
pub fn to_strict_schema(schema: &Value) -> Option<Value> {
    let entries = schema.as_object()?;
    if ["anyOf", "enum", "const", "$ref"]
        .iter()
        .any(|keyword| entries.contains_key(*keyword))
    {
        return None;
    }
    StrictWriter::default().convert_subschema(schema, SubschemaPosition::Root)
}

/// Writes the strict form, and counts the properties, values and characters that OpenAI limits.
#[derive(Default)]
struct StrictWriter {
    property_count: usize,
    value_count: usize,
    character_count: usize,
}

/// Where a subschema is: at the root of the schema, or below the root, at a nesting depth.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SubschemaPosition {
    Root,
    Level(usize),
}

impl SubschemaPosition {
    fn level(self) -> usize {
        match self {
            Self::Root => 0,
            Self::Level(level) => level,
        }
    }

    fn child(self) -> Self {
        Self::Level(self.level() + 1)
    }

    /// Returns the position of a subschema of `anyOf`. The subschema is not the root schema, but
    /// has the nesting depth of the schema that contains the `anyOf`.
    fn same_level(self) -> Self {
        Self::Level(self.level())
    }
}

impl StrictWriter {
    fn convert_subschema(&mut self, schema: &Value, position: SubschemaPosition) -> Option<Value> {
        let schema = schema.as_object()?;
        if position.level() > MAX_LEVELS {
            return None;
        }
        let type_keywords = ["type", "anyOf", "$ref"]
            .iter()
            .filter(|keyword| schema.contains_key(**keyword));
        if type_keywords.count() != 1 {
            return None;
        }
        let mut strict_keywords = Map::new();
        for (keyword, value) in schema {
            let converted_value = match keyword.as_str() {
                keyword if ANNOTATION_KEYWORDS.contains(&keyword) => continue,
                keyword if CONSTRAINT_KEYWORDS.contains(&keyword) => value.clone(),
                "format" if SUPPORTED_FORMATS.contains(&value.as_str()?) => value.clone(),
                "type" => value.clone(),
                "enum" => self.convert_values(value)?,
                "$ref" => convert_reference(value)?,
                "anyOf" => {
                    let schemas = value.as_array().filter(|schemas| !schemas.is_empty())?;
                    let subschemas = schemas
                        .iter()
                        .map(|subschema| self.convert_subschema(subschema, position.same_level()));
                    Value::Array(subschemas.collect::<Option<_>>()?)
                }
                "items" => self.convert_subschema(value, position.child())?,
                "$defs" | "definitions" if position == SubschemaPosition::Root => {
                    let subschemas = value.as_object()?.iter().map(|(name, subschema)| {
                        self.character_count += name.len();
                        Some((
                            name.clone(),
                            self.convert_subschema(subschema, SubschemaPosition::Level(1))?,
                        ))
                    });
                    Value::Object(subschemas.collect::<Option<_>>()?)
                }
                // These keywords are skipped, because `convert_object` writes them.
                "properties" | "required" | "additionalProperties" => continue,
                _ => return None,
            };
            strict_keywords.insert(keyword.clone(), converted_value);
        }
        if type_names(schema.get("type")).contains(&"array") && !schema.contains_key("items") {
            return None;
        }
        if type_names(schema.get("type")).contains(&"object") {
            self.convert_object(schema, position, &mut strict_keywords)?;
        } else if ["properties", "required", "additionalProperties"]
            .iter()
            .any(|keyword| schema.contains_key(*keyword))
        {
            return None;
        }
        let is_annotated = strict_keywords.len() > 1 && strict_keywords.contains_key("$ref");
        if is_annotated {
            // In the `strict` form, a `$ref` must not have sibling keywords.
            let reference = strict_keywords.shift_remove("$ref");
            strict_keywords.insert("anyOf".to_owned(), json!([{ "$ref": reference }]));
        }
        let is_within_limits = self.property_count <= MAX_PROPERTIES
            && self.value_count <= MAX_VALUES
            && self.character_count <= MAX_CHARACTERS;
        is_within_limits.then_some(Value::Object(strict_keywords))
    }

    fn convert_object(
        &mut self,
        schema: &Map<String, Value>,
        position: SubschemaPosition,
        strict_keywords: &mut Map<String, Value>,
    ) -> Option<()> {
        let no_properties = Map::new();
        let properties = match schema.get("properties") {
            None => &no_properties,
            Some(properties) => properties.as_object()?,
        };
        let is_closed = match schema.get("additionalProperties") {
            // At the root, an object without properties becomes an object that accepts no
            // properties; below the root, it may be a free-form map, which `strict` cannot express.
            None => !properties.is_empty() || position == SubschemaPosition::Root,
            Some(additional) => *additional == json!(false),
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
        self.property_count += properties.len();
        if self.property_count > MAX_PROPERTIES {
            return None;
        }
        let mut strict_properties = Map::new();
        for (name, property) in properties {
            self.character_count += name.len();
            let strict_property = self.convert_subschema(property, position.child())?;
            let is_required = required.contains(name.as_str());
            strict_properties.insert(
                name.clone(),
                if is_required {
                    strict_property
                } else {
                    allow_null(strict_property)
                },
            );
        }
        let names = strict_properties.keys().cloned().collect();
        strict_keywords.insert("properties".to_owned(), Value::Object(strict_properties));
        strict_keywords.insert("required".to_owned(), names);
        strict_keywords.insert("additionalProperties".to_owned(), json!(false));
        Some(())
    }

    fn convert_values(&mut self, values: &Value) -> Option<Value> {
        let list = values.as_array().filter(|values| !values.is_empty())?;
        self.value_count += list.len();
        let strings = list.iter().filter_map(Value::as_str);
        self.character_count += strings.map(str::len).sum::<usize>();
        Some(values.clone())
    }
}

/// Returns a reference to a definition or to the root; `None` for any other reference, which the
/// conversion could invalidate.
fn convert_reference(target: &Value) -> Option<Value> {
    let pointer = target.as_str()?;
    let name = pointer
        .strip_prefix("#/$defs/")
        .or_else(|| pointer.strip_prefix("#/definitions/"));
    let is_supported = pointer == "#" || name.is_some_and(|name| !name.contains('/'));
    is_supported.then(|| target.clone())
}

fn type_names(types: Option<&Value>) -> Vec<&str> {
    match types {
        Some(Value::String(name)) => vec![name],
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

/// Extends a schema so that it also allows `null`.
fn allow_null(mut schema: Value) -> Value {
    if let Some(subschemas) = schema.get_mut("anyOf").and_then(Value::as_array_mut) {
        if !subschemas
            .iter()
            .any(|subschema| type_names(subschema.get("type")).contains(&"null"))
        {
            subschemas.push(json!({"type": "null"}));
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
