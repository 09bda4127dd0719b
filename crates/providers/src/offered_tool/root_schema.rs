//! Rewrites the root of a tool's schema. No provider accepts a combination of schemas at the root:
//! OpenAI rejects a request with `anyOf`, `oneOf`, `allOf`, `enum` or `not` there, Anthropic a
//! request with `anyOf`, `oneOf` or `allOf`, and Google accepts none of them beside a `type`.

use std::borrow::Cow;
use std::collections::HashSet;

use pillion_core::tool::JsonObject;
use pillion_core::truncated;
use serde_json::{Value, json};

#[cfg(test)]
mod tests;

/// Keywords of the root that providers reject.
const REJECTED: [&str; 6] = ["allOf", "anyOf", "oneOf", "enum", "const", "not"];

/// Maximum nesting of combinations at the root.
const MAX_DEPTH: usize = 8;

/// Maximum length of the text that describes alternatives, in bytes.
const MAX_NOTE_BYTES: usize = 500;

/// Returns the schema with a root whose keywords every provider accepts, and a text for the model
/// about everything that this root cannot express. The properties of all combined schemas become
/// properties of the root; a property is required if each alternative requires the property. The
/// result may allow more than the schema; the executor validates arguments against the original.
pub(super) fn simplified(schema: &Value) -> (Cow<'_, Value>, Option<String>) {
    let Some(root) = schema.as_object().filter(|root| has_rejected(root)) else {
        return (Cow::Borrowed(schema), None);
    };
    let mut merger = Merger {
        document: schema,
        followed: HashSet::new(),
    };
    let flat = merger.flatten(root, 0);
    let mut simplified = root.clone();
    simplified.retain(|keyword, _| !REJECTED.contains(&keyword.as_str()));
    simplified.insert("type".to_owned(), json!("object"));
    simplified.insert("properties".to_owned(), flat.properties.into());
    simplified.insert("required".to_owned(), json!(flat.required));
    (Cow::Owned(simplified.into()), flat.note)
}

fn has_rejected(root: &JsonObject) -> bool {
    REJECTED.iter().any(|keyword| root.contains_key(*keyword))
}

/// The properties of an object schema and of the schemas that it combines.
#[derive(Default)]
struct Flat {
    properties: JsonObject,
    required: Vec<String>,
    note: Option<String>,
}

struct Merger<'s> {
    document: &'s Value,
    /// References that were followed. Each reference is followed once, so that the result is not
    /// larger than the schema.
    followed: HashSet<&'s str>,
}

impl<'s> Merger<'s> {
    fn flatten(&mut self, schema: &'s JsonObject, depth: usize) -> Flat {
        let mut flat = Flat {
            properties: object(schema.get("properties"))
                .cloned()
                .unwrap_or_default(),
            required: names(schema.get("required")),
            note: None,
        };
        if depth > MAX_DEPTH {
            return flat;
        }
        if let Some(target) = self.target(schema) {
            let target = self.flatten(target, depth + 1);
            flat.merge_all(target);
        }
        for branch in branches(schema.get("allOf")) {
            let branch = self.flatten(branch, depth + 1);
            flat.merge_all(branch);
        }
        for keyword in ["anyOf", "oneOf"] {
            let alternatives: Vec<_> = branches(schema.get(keyword))
                .map(|branch| self.flatten(branch, depth + 1))
                .collect();
            flat.merge_alternatives(alternatives);
        }
        flat
    }

    /// Returns the schema in this document that `$ref` refers to.
    fn target(&mut self, schema: &'s JsonObject) -> Option<&'s JsonObject> {
        let reference = schema.get("$ref")?.as_str()?;
        let pointer = reference.strip_prefix('#')?;
        let target = self.document.pointer(pointer)?.as_object()?;
        self.followed.insert(reference).then_some(target)
    }
}

impl Flat {
    /// Adds a schema that must match, too.
    fn merge_all(&mut self, other: Self) {
        self.required.extend(other.required);
        deduplicate(&mut self.required);
        self.note = self.note.take().or(other.note);
        for (name, property) in other.properties {
            self.properties.entry(name).or_insert(property);
        }
    }

    /// Adds schemas of which one must match.
    fn merge_alternatives(&mut self, alternatives: Vec<Self>) {
        let Some((first, others)) = alternatives.split_first() else {
            return;
        };
        let is_required = |name: &String| others.iter().all(|other| other.required.contains(name));
        let common = first.required.iter().filter(|name| is_required(name));
        self.required.extend(common.cloned().collect::<Vec<_>>());
        deduplicate(&mut self.required);
        self.note = self.note.take().or_else(|| self.describe(&alternatives));
        let mut found: indexmap::IndexMap<String, Vec<Value>> = indexmap::IndexMap::new();
        for alternative in alternatives {
            for (name, property) in alternative.properties {
                found.entry(name).or_default().push(property);
            }
        }
        for (name, mut properties) in found {
            if self.properties.contains_key(&name) {
                continue;
            }
            let mut seen = HashSet::new();
            properties.retain(|property| seen.insert(property.to_string()));
            let property = match properties.len() {
                1 => properties.remove(0),
                _ => json!({"anyOf": properties}),
            };
            self.properties.insert(name, property);
        }
    }

    /// Describes what each alternative requires beyond the properties that are always required.
    fn describe(&self, alternatives: &[Self]) -> Option<String> {
        let mut sets: Vec<String> = alternatives
            .iter()
            .map(|alternative| {
                let required = alternative.required.iter();
                let names = required.filter(|name| !self.required.contains(name));
                names
                    .map(|name| format!("`{name}`"))
                    .collect::<Vec<_>>()
                    .join(" and ")
            })
            .collect();
        if sets.iter().any(String::is_empty) {
            return None;
        }
        deduplicate(&mut sets);
        let sets = sets.join(", or ");
        let shown = truncated(&sets, MAX_NOTE_BYTES);
        let end = if shown.len() < sets.len() { " ..." } else { "" };
        Some(format!("Required: {shown}{end}."))
    }
}

fn branches(combined: Option<&Value>) -> impl Iterator<Item = &JsonObject> {
    let combined = combined.and_then(Value::as_array).into_iter().flatten();
    combined.filter_map(Value::as_object)
}

fn object(value: Option<&Value>) -> Option<&JsonObject> {
    value.and_then(Value::as_object)
}

fn names(value: Option<&Value>) -> Vec<String> {
    let names = value.and_then(Value::as_array).into_iter().flatten();
    names
        .filter_map(|name| name.as_str().map(str::to_owned))
        .collect()
}

fn deduplicate(names: &mut Vec<String>) {
    let mut seen = HashSet::new();
    names.retain(|name| seen.insert(name.clone()));
}
