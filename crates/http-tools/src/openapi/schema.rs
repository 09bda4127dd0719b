//! Schemas of a document as one JSON Schema that stands by itself.

use std::collections::{HashMap, HashSet};

use pillion_core::tool::JsonObject;
use serde_json::{Value, json};

use super::document::Document;

/// How many schemas one tool may refer to.
const MOST_DEFINITIONS: usize = 256;

/// How deep a schema may stand in others, between two references.
const MOST_DEPTH: usize = 64;

/// How much may be copied for one tool, in bytes, about: more than its schema may have in the end,
/// since what is read-only is left out afterwards.
const MOST_BYTES: usize = 1024 * 1024;

/// What any value counts for, beside its texts.
const ANY_VALUE: usize = 4;

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
    /// The references that are not copied yet.
    waiting: Vec<String>,
    /// How much more may be copied.
    room: usize,
}

impl<'a> Schemas<'a> {
    pub(super) fn of(document: &'a Document) -> Self {
        Self {
            document,
            names: HashMap::new(),
            waiting: Vec::new(),
            room: MOST_BYTES,
        }
    }

    /// A copy of a schema, whose references point into [`definitions`](Self::definitions).
    pub(super) fn copy(&mut self, schema: &Value) -> Result<Value, String> {
        self.copy_at(schema, 0)
    }

    /// What the copies refer to, and what that refers to. One after the other, so that a chain of
    /// references may be as long as there are schemas.
    pub(super) fn definitions(mut self) -> Result<JsonObject, String> {
        let mut definitions = JsonObject::new();
        while let Some(reference) = self.waiting.pop() {
            let schema = self.document.at(&reference)?;
            let copy = self.copy(schema)?;
            definitions.insert(self.refer(&reference)?, copy);
        }
        Ok(definitions)
    }

    /// Counts what is copied, of this tool and of all of the document.
    fn pay(&mut self, bytes: usize) -> Result<(), String> {
        self.room = self.room.checked_sub(bytes).ok_or_else(|| {
            format!("its schemas have more than {MOST_BYTES} bytes, with all that they refer to")
        })?;
        self.document.pay(bytes)
    }

    /// A copy of what is no schema.
    fn plain(&mut self, value: &Value) -> Result<Value, String> {
        match value {
            Value::Array(items) => {
                let items = items.iter().map(|item| self.plain(item));
                items.collect::<Result<_, _>>().map(Value::Array)
            }
            Value::Object(members) => {
                let members = members.iter().map(|(key, value)| {
                    self.pay(key.len())?;
                    Ok((key.clone(), self.plain(value)?))
                });
                members.collect::<Result<_, String>>().map(Value::Object)
            }
            scalar => {
                self.pay(scalar.as_str().map_or(0, str::len) + ANY_VALUE)?;
                Ok(scalar.clone())
            }
        }
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
            plain => return self.plain(plain),
        };
        self.pay(ANY_VALUE)?;
        if let Some(reference) = members.get("$ref").and_then(Value::as_str) {
            let name = self.refer(reference)?;
            return Ok(json!({"$ref": format!("#/$defs/{name}")}));
        }
        let mut copy = JsonObject::new();
        for (key, value) in members {
            if LEFT_OUT.contains(&key.as_str()) || key.starts_with("x-") {
                continue;
            }
            self.pay(key.len())?;
            let value = if PLAIN.contains(&key.as_str()) {
                self.plain(value)?
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
            return self.plain(schemas);
        };
        let mut copies = JsonObject::new();
        for (name, schema) in schemas {
            self.pay(name.len())?;
            copies.insert(name.clone(), self.copy_at(schema, depth + 1)?);
        }
        Ok(Value::Object(copies))
    }

    /// The name of a referenced schema, which is copied later.
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
        self.names.insert(reference.to_owned(), name.clone());
        self.waiting.push(reference.to_owned());
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
        let read_only: HashSet<_> = read_only.map(|(name, _)| name.as_str()).collect();
        if let Some(Value::Object(properties)) = copy.get_mut("properties") {
            properties.retain(|name, _| !read_only.contains(name.as_str()));
        }
        if let Some(Value::Array(required)) = copy.get_mut("required") {
            required.retain(|name| name.as_str().is_none_or(|name| !read_only.contains(name)));
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
