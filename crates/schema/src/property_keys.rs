//! Property names that every model provider accepts: `^[a-zA-Z0-9_.-]{1,64}$`. Anthropic rejects a
//! whole request if a single property name does not match this pattern.

use std::collections::{HashMap, HashSet};

use percent_encoding::percent_decode_str;
use serde_json::{Map, Value};

use crate::SubschemaKind;

#[cfg(test)]
mod tests;

/// Maximum length of a property name, in characters.
const MAX_LENGTH: usize = 64;

/// The properties of a tool's schema, at any depth, whose names are not accepted by every provider,
/// and the names that the model sees instead.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct PropertyKeys {
    model_keys: HashMap<String, String>,
    original_keys: HashMap<String, String>,
}

impl PropertyKeys {
    /// Returns the properties of `schema` that need another name, if there are any. The new names
    /// depend only on the schema.
    #[must_use]
    pub fn new(schema: &Value) -> Option<Self> {
        let mut property_keys = Vec::new();
        visit_keys(schema, &mut |key| property_keys.push(key));
        if property_keys.iter().all(|key| is_accepted(key)) {
            return None;
        }
        let mut names = FreeNames {
            used_names: property_keys.iter().map(|key| (*key).to_owned()).collect(),
            last_numbers: HashMap::new(),
        };
        let mut renamed_keys = Self::default();
        for key in property_keys.into_iter().filter(|key| !is_accepted(key)) {
            if renamed_keys.model_keys.contains_key(key) {
                continue;
            }
            let name = names.take(key);
            renamed_keys
                .original_keys
                .insert(name.clone(), key.to_owned());
            renamed_keys.model_keys.insert(key.to_owned(), name);
        }
        Some(renamed_keys)
    }

    /// Returns the schema with the property names for the model.
    #[must_use]
    pub fn rename_schema(&self, schema: &Value) -> Value {
        match schema {
            Value::Array(items) => items.iter().map(|item| self.rename_schema(item)).collect(),
            Value::Object(keywords) => {
                let keywords = keywords.iter().map(|(keyword, value)| {
                    (keyword.clone(), self.rename_keyword_value(keyword, value))
                });
                keywords.collect::<Map<_, _>>().into()
            }
            other => other.clone(),
        }
    }

    fn rename_keyword_value(&self, keyword: &str, value: &Value) -> Value {
        match (keyword, value) {
            ("required", Value::Array(names)) => self.rename_list(names),
            ("$ref", Value::String(reference)) => self.rename_in_reference(reference).into(),
            (_, value) if is_data(keyword) => value.clone(),
            (_, Value::Object(members)) if has_names(keyword) => {
                let renamed_members = members.iter().map(|(name, value)| {
                    let model_name = if has_property_names(keyword) {
                        self.model_key(name)
                    } else {
                        name
                    };
                    let renamed_value = match value {
                        Value::Array(names) => self.rename_list(names),
                        schema => self.rename_schema(schema),
                    };
                    (model_name.to_owned(), renamed_value)
                });
                renamed_members.collect::<Map<_, _>>().into()
            }
            (_, value) => self.rename_schema(value),
        }
    }

    /// Renames the properties in a reference such as `#/properties/my%20key/items`.
    fn rename_in_reference(&self, reference: &str) -> String {
        let mut parent_keyword = String::new();
        let segments = reference.split('/').map(|segment| {
            let decoded_segment = percent_decode_str(segment).decode_utf8_lossy();
            let name = decoded_segment.replace("~1", "/").replace("~0", "~");
            let parent = std::mem::take(&mut parent_keyword);
            if !has_names(&parent) {
                parent_keyword = name;
                return segment;
            }
            match self.model_keys.get(&name) {
                Some(model_key) if has_property_names(&parent) => model_key.as_str(),
                _ => segment,
            }
        });
        segments.collect::<Vec<_>>().join("/")
    }

    fn model_key<'n>(&'n self, key: &'n str) -> &'n str {
        self.model_keys.get(key).map_or(key, String::as_str)
    }

    fn rename_list(&self, names: &[Value]) -> Value {
        let names = names.iter().map(|name| match name {
            Value::String(name) => self.model_key(name).into(),
            other => other.clone(),
        });
        names.collect()
    }

    /// Restores the original property names in the arguments that a model sent.
    pub fn restore(&self, arguments: &mut Map<String, Value>) {
        *arguments = std::mem::take(arguments)
            .into_iter()
            .map(|(key, mut value)| {
                self.restore_within(&mut value);
                let original_key = self.original_keys.get(&key).cloned().unwrap_or(key);
                (original_key, value)
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

/// Calls `visit` for each property of the schema, at any depth. Also visits values of unknown
/// keywords, because references may use these values as schemas.
fn visit_keys<'s>(schema: &'s Value, visit: &mut impl FnMut(&'s str)) {
    match schema {
        Value::Array(items) => items.iter().for_each(|item| visit_keys(item, visit)),
        Value::Object(keywords) => {
            for (keyword, value) in keywords {
                match value {
                    _ if is_data(keyword) => {}
                    Value::Object(members) if has_names(keyword) => {
                        for (name, schema) in members {
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
    SubschemaKind::from_keyword(keyword) == SubschemaKind::Map || has_property_names(keyword)
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

/// Generates property names that are not used yet.
struct FreeNames {
    used_names: HashSet<String>,
    /// The last number that was appended to each name to make it unique.
    last_numbers: HashMap<String, usize>,
}

impl FreeNames {
    /// Returns an unused name that is similar to `key` and that providers accept, and marks the
    /// name as used.
    fn take(&mut self, key: &str) -> String {
        let to_accepted = |character: char| match u8::try_from(character) {
            Ok(byte) if is_accepted_byte(byte) => character,
            _ => '_',
        };
        let mut name: String = key.chars().map(to_accepted).take(MAX_LENGTH).collect();
        if name.is_empty() {
            name.push('_');
        }
        let mut unused_name = name.clone();
        while self.used_names.contains(&unused_name) {
            let number = self.last_numbers.entry(name.clone()).or_insert(1);
            *number += 1;
            let suffix = format!("_{number}");
            unused_name = name
                .chars()
                .take(MAX_LENGTH - suffix.len())
                .collect::<String>()
                + &suffix;
        }
        self.used_names.insert(unused_name.clone());
        unused_name
    }
}
