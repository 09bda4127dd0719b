//! Combines the schemas of an OpenAPI document into one self-contained JSON Schema.

use std::collections::{HashMap, HashSet};

use pillion_core::tool::JsonObject;
use serde_json::{Value, json};

use super::document::OpenApiDocument;

/// Maximum number of schemas that a tool may refer to.
const MAX_DEFINITIONS: usize = 256;

/// Maximum nesting depth of a schema, not counting the schemas that a reference leads to.
const MAX_DEPTH: usize = 64;

/// Approximate maximum number of bytes that are copied for one tool. Larger than the maximum size
/// of the final schema, because read-only properties are removed afterwards.
const MAX_TOOL_SCHEMA_BYTES: usize = 1024 * 1024;

/// Number of bytes that each JSON value counts toward the size of a schema, in addition to the
/// bytes of its strings.
const BYTES_PER_VALUE: usize = 4;

/// Keywords that are dropped, because they do not constrain values.
const DROPPED_KEYWORDS: [&str; 7] = [
    "$schema",
    "$id",
    "example",
    "examples",
    "externalDocs",
    "discriminator",
    "xml",
];

/// Keywords whose values contain no schemas.
const VALUE_KEYWORDS: [&str; 5] = ["enum", "const", "default", "required", "type"];

/// Keywords whose values are maps of schemas by arbitrary names.
const MAP_KEYWORDS: [&str; 5] = [
    "properties",
    "patternProperties",
    "$defs",
    "definitions",
    "dependentSchemas",
];

/// Copies schemas for a tool, and collects the schemas to which they refer. A recursive schema
/// stays recursive.
pub(super) struct SchemaCopier<'a> {
    document: &'a OpenApiDocument,
    /// Maps the `$ref` of each copied schema in the OpenAPI document to the name of the copy in the
    /// tool's `$defs`.
    names: HashMap<String, String>,
    /// The references whose schemas are not copied yet.
    uncopied_references: Vec<String>,
    /// Number of schema bytes that may still be copied for the tool.
    remaining_bytes: usize,
}

impl<'a> SchemaCopier<'a> {
    pub(super) fn new(document: &'a OpenApiDocument) -> Self {
        Self {
            document,
            names: HashMap::new(),
            uncopied_references: Vec::new(),
            remaining_bytes: MAX_TOOL_SCHEMA_BYTES,
        }
    }

    /// Copies a schema. The references in the copy point to the schemas that
    /// [`into_definitions`](Self::into_definitions) returns.
    pub(super) fn copy(&mut self, schema: &Value) -> Result<Value, String> {
        self.copy_at_depth(schema, 0)
    }

    /// Returns the directly and indirectly referenced schemas. Works iteratively, so that a long
    /// chain of references does not exhaust the stack.
    pub(super) fn into_definitions(mut self) -> Result<JsonObject, String> {
        let mut definitions = JsonObject::new();
        while let Some(reference) = self.uncopied_references.pop() {
            let schema = self.document.find_target(&reference)?;
            let copied_schema = self.copy(schema)?;
            definitions.insert(self.assign_definition_name(&reference)?, copied_schema);
        }
        Ok(definitions)
    }

    /// Counts copied bytes toward the limits of the tool and of the whole document.
    fn count_bytes(&mut self, byte_count: usize) -> Result<(), String> {
        self.remaining_bytes = self
            .remaining_bytes
            .checked_sub(byte_count)
            .ok_or_else(|| {
                format!(
                    "the operation's schemas, with everything that they reference, are larger than \
                {MAX_TOOL_SCHEMA_BYTES} bytes"
                )
            })?;
        self.document.count_copied_bytes(byte_count)
    }

    /// Copies a JSON value that is not a schema.
    fn copy_plain(&mut self, value: &Value) -> Result<Value, String> {
        match value {
            Value::Array(items) => {
                let copies = items.iter().map(|item| self.copy_plain(item));
                copies.collect::<Result<_, _>>().map(Value::Array)
            }
            Value::Object(members) => {
                let copies = members.iter().map(|(key, value)| {
                    self.count_bytes(key.len())?;
                    Ok((key.clone(), self.copy_plain(value)?))
                });
                copies.collect::<Result<_, String>>().map(Value::Object)
            }
            scalar => {
                self.count_bytes(scalar.as_str().map_or(0, str::len) + BYTES_PER_VALUE)?;
                Ok(scalar.clone())
            }
        }
    }

    fn copy_at_depth(&mut self, schema: &Value, depth: usize) -> Result<Value, String> {
        if depth > MAX_DEPTH {
            return Err(format!(
                "schemas are nested more than {MAX_DEPTH} levels deep"
            ));
        }
        let members = match schema {
            Value::Object(members) => members,
            Value::Array(items) => {
                let copies = items.iter().map(|item| self.copy_at_depth(item, depth + 1));
                return copies.collect::<Result<_, _>>().map(Value::Array);
            }
            scalar => return self.copy_plain(scalar),
        };
        self.count_bytes(BYTES_PER_VALUE)?;
        if let Some(reference) = members.get("$ref").and_then(Value::as_str) {
            let name = self.assign_definition_name(reference)?;
            return Ok(json!({"$ref": format!("#/$defs/{name}")}));
        }
        let mut copy = JsonObject::new();
        for (key, value) in members {
            if DROPPED_KEYWORDS.contains(&key.as_str()) || key.starts_with("x-") {
                continue;
            }
            self.count_bytes(key.len())?;
            let copied_value = if VALUE_KEYWORDS.contains(&key.as_str()) {
                self.copy_plain(value)?
            } else if MAP_KEYWORDS.contains(&key.as_str()) {
                self.copy_map(value, depth)?
            } else {
                self.copy_at_depth(value, depth + 1)?
            };
            copy.insert(key.clone(), copied_value);
        }
        self.remove_read_only(members, &mut copy);
        // In a document of OpenAPI 3.0, `nullable` stays in the copy, because `nullable` and
        // similar keywords are converted together with the tool's definition.
        if !self.document.has_old_schemas() {
            // In OpenAPI 3.1, `nullable` is not a keyword, and is removed because it has no
            // meaning.
            copy.shift_remove("nullable");
        }
        Ok(Value::Object(copy))
    }

    fn copy_map(&mut self, schemas: &Value, depth: usize) -> Result<Value, String> {
        let Value::Object(schemas) = schemas else {
            return self.copy_plain(schemas);
        };
        let mut copies = JsonObject::new();
        for (name, schema) in schemas {
            self.count_bytes(name.len())?;
            copies.insert(name.clone(), self.copy_at_depth(schema, depth + 1)?);
        }
        Ok(Value::Object(copies))
    }

    /// Returns the definition name of a referenced schema, which is copied later.
    fn assign_definition_name(&mut self, reference: &str) -> Result<String, String> {
        if let Some(name) = self.names.get(reference) {
            return Ok(name.clone());
        }
        if self.names.len() >= MAX_DEFINITIONS {
            return Err(format!(
                "the operation references more than {MAX_DEFINITIONS} schemas"
            ));
        }
        let last_segment = reference.rsplit('/').next().unwrap_or_default();
        let is_legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        let base_name: String = last_segment
            .chars()
            .map(|c| if is_legal(c) { c } else { '_' })
            .collect();
        let mut name = base_name.clone();
        let mut number = 1;
        while self.names.values().any(|used_name| *used_name == name) {
            number += 1;
            name = format!("{base_name}_{number}");
        }
        self.names.insert(reference.to_owned(), name.clone());
        self.uncopied_references.push(reference.to_owned());
        Ok(name)
    }

    /// Removes the read-only properties of a schema, which only the server may set.
    fn remove_read_only(&self, schema: &JsonObject, copy: &mut JsonObject) {
        let Some(Value::Object(properties)) = schema.get("properties") else {
            return;
        };
        let is_read_only = |property: &Value| {
            let resolved_property = self.document.resolve(property);
            resolved_property.is_ok_and(|property| property["readOnly"] == true)
        };
        let read_only_names: HashSet<_> = properties
            .iter()
            .filter(|(_, property)| is_read_only(property))
            .map(|(name, _)| name.as_str())
            .collect();
        if let Some(Value::Object(properties)) = copy.get_mut("properties") {
            properties.retain(|name, _| !read_only_names.contains(name.as_str()));
        }
        if let Some(Value::Array(required)) = copy.get_mut("required") {
            required.retain(|name| {
                name.as_str()
                    .is_none_or(|name| !read_only_names.contains(name))
            });
        }
    }
}
