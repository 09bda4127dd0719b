//! Property names that every model provider accepts: `^[a-zA-Z0-9_.-]{1,64}$`. A single other name
//! makes Anthropic reject the whole request.

use std::collections::{HashMap, HashSet};

use percent_encoding::percent_decode_str;
use serde_json::{Map, Value};

use crate::SubschemaKind;

#[cfg(test)]
mod tests;

/// Maximum length of a property name, in characters.
const MAX_LENGTH: usize = 64;

/// The properties of a tool's schema, at any depth, whose names are not accepted by every provider,
/// and their other names for the model.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct PropertyKeys {
    for_model: HashMap<String, String>,
    own: HashMap<String, String>,
}

impl PropertyKeys {
    /// Returns the properties of `schema` that need another name, if there are any. The new names
    /// depend only on the schema.
    #[must_use]
    pub fn new(schema: &Value) -> Option<Self> {
        let mut all = Vec::new();
        visit_keys(schema, &mut |key| all.push(key));
        if all.iter().all(|key| is_accepted(key)) {
            return None;
        }
        let mut names = FreeNames {
            taken: all.iter().map(|key| (*key).to_owned()).collect(),
            numbers: HashMap::new(),
        };
        let mut keys = Self::default();
        for key in all.into_iter().filter(|key| !is_accepted(key)) {
            if keys.for_model.contains_key(key) {
                continue;
            }
            let name = names.take(key);
            keys.own.insert(name.clone(), key.to_owned());
            keys.for_model.insert(key.to_owned(), name);
        }
        Some(keys)
    }

    /// Returns the schema with the property names for the model.
    #[must_use]
    pub fn renamed(&self, schema: &Value) -> Value {
        match schema {
            Value::Array(items) => items.iter().map(|item| self.renamed(item)).collect(),
            Value::Object(keywords) => {
                let keywords = keywords.iter().map(|(keyword, value)| {
                    (keyword.clone(), self.renamed_keyword(keyword, value))
                });
                keywords.collect::<Map<_, _>>().into()
            }
            other => other.clone(),
        }
    }

    fn renamed_keyword(&self, keyword: &str, value: &Value) -> Value {
        match (keyword, value) {
            ("required", Value::Array(names)) => self.names(names),
            ("$ref", Value::String(reference)) => self.rename_in_reference(reference).into(),
            (_, value) if is_data(keyword) => value.clone(),
            (_, Value::Object(named)) if has_names(keyword) => {
                let renamed = named.iter().map(|(name, value)| {
                    let name = match has_property_names(keyword) {
                        true => self.name_of(name),
                        false => name,
                    };
                    let value = match value {
                        Value::Array(names) => self.names(names),
                        schema => self.renamed(schema),
                    };
                    (name.to_owned(), value)
                });
                renamed.collect::<Map<_, _>>().into()
            }
            (_, value) => self.renamed(value),
        }
    }

    /// Renames the properties in a reference such as `#/properties/my%20key/items`.
    fn rename_in_reference(&self, reference: &str) -> String {
        let mut keyword = String::new();
        let segments = reference.split('/').map(|segment| {
            let decoded = percent_decode_str(segment).decode_utf8_lossy();
            let name = decoded.replace("~1", "/").replace("~0", "~");
            let map = std::mem::take(&mut keyword);
            if !has_names(&map) {
                keyword = name;
                return segment;
            }
            match self.for_model.get(&name) {
                Some(renamed) if has_property_names(&map) => renamed.as_str(),
                _ => segment,
            }
        });
        segments.collect::<Vec<_>>().join("/")
    }

    fn name_of<'n>(&'n self, key: &'n str) -> &'n str {
        self.for_model.get(key).map_or(key, String::as_str)
    }

    fn names(&self, names: &[Value]) -> Value {
        let names = names.iter().map(|name| match name {
            Value::String(name) => self.name_of(name).into(),
            other => other.clone(),
        });
        names.collect()
    }

    /// Restores the tool's own property names in a model's arguments.
    pub fn restore(&self, arguments: &mut Map<String, Value>) {
        *arguments = std::mem::take(arguments)
            .into_iter()
            .map(|(key, mut value)| {
                self.restore_within(&mut value);
                let key = self.own.get(&key).cloned().unwrap_or(key);
                (key, value)
            })
            .collect();
    }

    fn restore_within(&self, value: &mut Value) {
        match value {
            Value::Object(entries) => self.restore(entries),
            Value::Array(items) => items.iter_mut().for_each(|item| self.restore_within(item)),
            _ => {}
        }
    }
}

/// Calls `visit` for each property of the schema, at any depth. Values of unknown keywords may be
/// schemas, to which references lead.
fn visit_keys<'s>(schema: &'s Value, visit: &mut impl FnMut(&'s str)) {
    match schema {
        Value::Array(items) => items.iter().for_each(|item| visit_keys(item, visit)),
        Value::Object(keywords) => {
            for (keyword, value) in keywords {
                match value {
                    _ if is_data(keyword) => {}
                    Value::Object(named) if has_names(keyword) => {
                        for (name, schema) in named {
                            if keyword == "properties" {
                                visit(name);
                            }
                            visit_keys(schema, visit);
                        }
                    }
                    value => visit_keys(value, visit),
                }
            }
        }
        _ => {}
    }
}

fn is_data(keyword: &str) -> bool {
    matches!(keyword, "enum" | "const" | "default" | "examples")
}

/// Returns whether the value of the keyword is a map whose keys are not keywords.
fn has_names(keyword: &str) -> bool {
    SubschemaKind::from_keyword(keyword) == SubschemaKind::Named || has_property_names(keyword)
}

/// Returns whether the value of the keyword is a map whose keys are property names.
fn has_property_names(keyword: &str) -> bool {
    matches!(
        keyword,
        "properties" | "dependentSchemas" | "dependentRequired" | "dependencies"
    )
}

fn is_accepted(key: &str) -> bool {
    (1..=MAX_LENGTH).contains(&key.len()) && key.bytes().all(is_accepted_byte)
}

fn is_accepted_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-')
}

/// Generates names that no property has.
struct FreeNames {
    taken: HashSet<String>,
    /// The last number that was added to a name.
    numbers: HashMap<String, usize>,
}

impl FreeNames {
    /// Returns a name like `key` that providers accept and that is free, and marks the name as
    /// taken.
    fn take(&mut self, key: &str) -> String {
        let accepted = |character: char| match u8::try_from(character) {
            Ok(byte) if is_accepted_byte(byte) => character,
            _ => '_',
        };
        let name: String = key.chars().map(accepted).take(MAX_LENGTH).collect();
        let name = if name.is_empty() {
            "_".to_owned()
        } else {
            name
        };
        let mut free = name.clone();
        while self.taken.contains(&free) {
            let number = self.numbers.entry(name.clone()).or_insert(1);
            *number += 1;
            let end = format!("_{number}");
            free = name
                .chars()
                .take(MAX_LENGTH - end.len())
                .collect::<String>()
                + &end;
        }
        self.taken.insert(free.clone());
        free
    }
}
