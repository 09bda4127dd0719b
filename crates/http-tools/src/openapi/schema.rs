//! Schemas of a document as one JSON Schema that stands by itself.

use std::collections::HashMap;

use pillion_core::tool::JsonObject;
use serde_json::{Value, json};

use super::document::Document;

/// How many schemas one tool may refer to.
const MOST_DEFINITIONS: usize = 256;

/// How deep a schema may stand in others.
const MOST_DEPTH: usize = 64;

/// What says nothing of the values that are sent.
const LEFT_OUT: [&str; 8] = [
    "$schema",
    "$id",
    "example",
    "examples",
    "externalDocs",
    "discriminator",
    "xml",
    "nullable",
];

/// Keywords whose value is no schema and holds none.
const PLAIN: [&str; 5] = ["enum", "const", "default", "required", "type"];

/// Keywords whose value is a map of schemas by names that anybody may choose.
const MAPS: [&str; 5] = [
    "properties",
    "patternProperties",
    "$defs",
    "definitions",
    "dependentSchemas",
];

/// Copies schemas, and collects those that they refer to: a schema that holds itself stays one
/// that refers to itself.
pub(super) struct Schemas<'a> {
    document: &'a Document,
    /// The names that referenced schemas have, by reference.
    names: HashMap<String, String>,
    definitions: JsonObject,
}

impl<'a> Schemas<'a> {
    pub(super) fn of(document: &'a Document) -> Self {
        Self {
            document,
            names: HashMap::new(),
            definitions: JsonObject::new(),
        }
    }

    /// A copy of a schema, whose references point into [`definitions`](Self::definitions).
    pub(super) fn copy(&mut self, schema: &Value) -> Result<Value, String> {
        self.copy_at(schema, 0)
    }

    /// What the copies refer to.
    pub(super) fn definitions(self) -> JsonObject {
        self.definitions
    }

    fn copy_at(&mut self, schema: &Value, depth: usize) -> Result<Value, String> {
        if depth > MOST_DEPTH {
            return Err(format!(
                "schemas stand in each other more than {MOST_DEPTH} deep"
            ));
        }
        let members = match schema {
            Value::Object(members) => members,
            Value::Array(items) => {
                let items = items.iter().map(|item| self.copy_at(item, depth + 1));
                return items.collect::<Result<_, _>>().map(Value::Array);
            }
            plain => return Ok(plain.clone()),
        };
        if let Some(reference) = members.get("$ref").and_then(Value::as_str) {
            let name = self.refer(reference)?;
            return Ok(json!({"$ref": format!("#/$defs/{name}")}));
        }
        let mut copy = JsonObject::new();
        for (key, value) in members {
            if LEFT_OUT.contains(&key.as_str()) || key.starts_with("x-") {
                continue;
            }
            let value = if PLAIN.contains(&key.as_str()) {
                value.clone()
            } else if MAPS.contains(&key.as_str()) {
                self.map(value, depth)?
            } else {
                self.copy_at(value, depth + 1)?
            };
            copy.insert(key.clone(), value);
        }
        self.without_read_only(members, &mut copy);
        if self.document.has_old_schemas() {
            modernize(members, &mut copy);
        }
        Ok(Value::Object(copy))
    }

    fn map(&mut self, schemas: &Value, depth: usize) -> Result<Value, String> {
        let Value::Object(schemas) = schemas else {
            return Ok(schemas.clone());
        };
        let mut copies = JsonObject::new();
        for (name, schema) in schemas {
            copies.insert(name.clone(), self.copy_at(schema, depth + 1)?);
        }
        Ok(Value::Object(copies))
    }

    /// The name of a referenced schema; the first time, it is copied.
    fn refer(&mut self, reference: &str) -> Result<String, String> {
        if let Some(name) = self.names.get(reference) {
            return Ok(name.clone());
        }
        if self.names.len() >= MOST_DEFINITIONS {
            return Err(format!("it refers to more than {MOST_DEFINITIONS} schemas"));
        }
        let last = reference.rsplit('/').next().unwrap_or_default();
        let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        let base: String = last
            .chars()
            .map(|c| if legal(c) { c } else { '_' })
            .collect();
        let mut name = base.clone();
        let mut number = 1;
        while self.names.values().any(|taken| *taken == name) {
            number += 1;
            name = format!("{base}_{number}");
        }
        // Before it is copied, in case it holds itself.
        self.names.insert(reference.to_owned(), name.clone());
        let schema = self.document.at(reference)?;
        let copy = self.copy_at(schema, self.names.len().min(MOST_DEPTH) / 2)?;
        self.definitions.insert(name.clone(), copy);
        Ok(name)
    }

    /// What the server alone says is not asked for.
    fn without_read_only(&self, schema: &JsonObject, copy: &mut JsonObject) {
        let Some(Value::Object(properties)) = schema.get("properties") else {
            return;
        };
        let is_read_only = |property: &&Value| {
            let property = self.document.resolve(property);
            property.is_ok_and(|property| property["readOnly"] == true)
        };
        let read_only = properties.iter().filter(|(_, it)| is_read_only(it));
        let read_only: Vec<_> = read_only.map(|(name, _)| name.as_str()).collect();
        if let Some(Value::Object(properties)) = copy.get_mut("properties") {
            properties.retain(|name, _| !read_only.contains(&name.as_str()));
        }
        if let Some(Value::Array(required)) = copy.get_mut("required") {
            required.retain(|name| name.as_str().is_none_or(|name| !read_only.contains(&name)));
        }
    }
}

/// Says in today's words what OpenAPI 3.0 said in its own: `nullable`, and exclusive bounds.
fn modernize(schema: &JsonObject, copy: &mut JsonObject) {
    for (exclusive, bound) in [
        ("exclusiveMinimum", "minimum"),
        ("exclusiveMaximum", "maximum"),
    ] {
        match schema.get(exclusive) {
            Some(Value::Bool(true)) => {
                if let Some(value) = copy.shift_remove(bound) {
                    copy.insert(exclusive.to_owned(), value);
                }
            }
            Some(Value::Bool(false)) => {
                copy.shift_remove(exclusive);
            }
            _ => {}
        }
    }
    if schema.get("nullable") == Some(&Value::Bool(true)) {
        if let Some(Value::String(kind)) = copy.get("type") {
            let kind = json!([kind, "null"]);
            copy.insert("type".to_owned(), kind);
        }
        if let Some(Value::Array(values)) = copy.get_mut("enum")
            && !values.contains(&Value::Null)
        {
            values.push(Value::Null);
        }
    }
}
