//! Rewrites the root of a tool's schema. No provider accepts a combination of schemas at the root:
//! OpenAI rejects a request with `anyOf`, `oneOf`, `allOf`, `enum` or `not` at the root, Anthropic
//! a request with `anyOf`, `oneOf` or `allOf`, and Google accepts no such keyword beside a `type`.

use std::borrow::Cow;
use std::collections::HashSet;

use pillion_core::tool::JsonObject;
use pillion_core::truncated;
use serde_json::{Value, json};

#[cfg(test)]
mod tests;

/// Keywords of the root that providers reject.
const REJECTED_KEYWORDS: [&str; 6] = ["allOf", "anyOf", "oneOf", "enum", "const", "not"];

/// Maximum nesting depth of `allOf`, `anyOf` and `oneOf` at the root of a schema.
const MAX_DEPTH: usize = 8;

/// Maximum length of the list of properties in the note of [`simplify_root`], in bytes.
const MAX_NOTE_BYTES: usize = 500;

/// Returns the schema with a root whose keywords every provider accepts. Also returns a note for
/// the model if arguments must contain one of several sets of properties, which the new root
/// cannot express.
///
/// The properties of all combined schemas become properties of the root. A property that only some
/// subschemas of `anyOf` or `oneOf` require becomes optional. The result may allow more than the
/// schema; the executor validates arguments against the original.
pub(super) fn simplify_root(schema: &Value) -> (Cow<'_, Value>, Option<String>) {
    let Some(root) = schema.as_object().filter(|root| has_rejected_keyword(root)) else {
        return (Cow::Borrowed(schema), None);
    };
    let mut merger = SchemaMerger {
        document: schema,
        followed_references: HashSet::new(),
    };
    let flat_root = merger.flatten(root, 0);
    let mut simple_root = root.clone();
    simple_root.retain(|keyword, _| !REJECTED_KEYWORDS.contains(&keyword.as_str()));
    simple_root.insert("type".to_owned(), json!("object"));
    simple_root.insert("properties".to_owned(), flat_root.properties.into());
    simple_root.insert("required".to_owned(), json!(flat_root.required));
    (Cow::Owned(simple_root.into()), flat_root.note)
}

fn has_rejected_keyword(root: &JsonObject) -> bool {
    REJECTED_KEYWORDS
        .iter()
        .any(|keyword| root.contains_key(*keyword))
}

/// The properties of an object schema and of the schemas that it combines.
#[derive(Default)]
struct FlatSchema {
    properties: JsonObject,
    required: Vec<String>,
    note: Option<String>,
}

struct SchemaMerger<'s> {
    document: &'s Value,
    /// References that were followed. Each reference is followed once, so that the result is not
    /// larger than the schema.
    followed_references: HashSet<&'s str>,
}

impl<'s> SchemaMerger<'s> {
    fn flatten(&mut self, schema: &'s JsonObject, depth: usize) -> FlatSchema {
        let mut flat_schema = FlatSchema {
            properties: as_object(schema.get("properties"))
                .cloned()
                .unwrap_or_default(),
            required: to_names(schema.get("required")),
            note: None,
        };
        if depth > MAX_DEPTH {
            return flat_schema;
        }
        if let Some(target) = self.follow_reference(schema) {
            let flat_target = self.flatten(target, depth + 1);
            flat_schema.merge_all(flat_target);
        }
        for branch in branches(schema.get("allOf")) {
            let flat_branch = self.flatten(branch, depth + 1);
            flat_schema.merge_all(flat_branch);
        }
        for keyword in ["anyOf", "oneOf"] {
            let alternatives: Vec<_> = branches(schema.get(keyword))
                .map(|branch| self.flatten(branch, depth + 1))
                .collect();
            flat_schema.merge_alternatives(alternatives);
        }
        flat_schema
    }

    /// Returns the schema that `$ref` refers to, if the target is in the tool's schema and the
    /// reference was not followed before.
    fn follow_reference(&mut self, schema: &'s JsonObject) -> Option<&'s JsonObject> {
        let reference = schema.get("$ref")?.as_str()?;
        let pointer = reference.strip_prefix('#')?;
        let target = self.document.pointer(pointer)?.as_object()?;
        self.followed_references.insert(reference).then_some(target)
    }
}

impl FlatSchema {
    /// Merges a schema that arguments must match in addition: a subschema of `allOf`, or the target
    /// of `$ref`.
    fn merge_all(&mut self, other: Self) {
        self.required.extend(other.required);
        deduplicate(&mut self.required);
        self.note = self.note.take().or(other.note);
        for (name, property) in other.properties {
            self.properties.entry(name).or_insert(property);
        }
    }

    /// Merges the subschemas of `anyOf` or `oneOf`. Arguments must match at least one subschema.
    fn merge_alternatives(&mut self, alternatives: Vec<Self>) {
        let Some((first_alternative, other_alternatives)) = alternatives.split_first() else {
            return;
        };
        let is_required = |name: &String| {
            other_alternatives
                .iter()
                .all(|other| other.required.contains(name))
        };
        let common_names = first_alternative
            .required
            .iter()
            .filter(|name| is_required(name));
        self.required
            .extend(common_names.cloned().collect::<Vec<_>>());
        deduplicate(&mut self.required);
        self.note = self.note.take().or_else(|| self.describe(&alternatives));
        let mut properties_by_name: indexmap::IndexMap<String, Vec<Value>> =
            indexmap::IndexMap::new();
        for alternative in alternatives {
            for (name, property) in alternative.properties {
                properties_by_name.entry(name).or_default().push(property);
            }
        }
        for (name, mut properties) in properties_by_name {
            if self.properties.contains_key(&name) {
                continue;
            }
            let mut unique_properties = HashSet::new();
            properties.retain(|property| unique_properties.insert(property.to_string()));
            let property = match properties.len() {
                1 => properties.remove(0),
                _ => json!({"anyOf": properties}),
            };
            self.properties.insert(name, property);
        }
    }

    /// Lists the properties that each subschema requires in addition to the properties that are
    /// always required. Returns `None` if any subschema requires no additional properties.
    fn describe(&self, alternatives: &[Self]) -> Option<String> {
        let mut name_sets: Vec<String> = alternatives
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
        if name_sets.iter().any(String::is_empty) {
            return None;
        }
        deduplicate(&mut name_sets);
        let text = name_sets.join(", or ");
        let visible_text = truncated(&text, MAX_NOTE_BYTES);
        let ellipsis = if visible_text.len() < text.len() {
            " ..."
        } else {
            ""
        };
        Some(format!("Required: {visible_text}{ellipsis}."))
    }
}

fn branches(combined: Option<&Value>) -> impl Iterator<Item = &JsonObject> {
    let schemas = combined.and_then(Value::as_array).into_iter().flatten();
    schemas.filter_map(Value::as_object)
}

fn as_object(value: Option<&Value>) -> Option<&JsonObject> {
    value.and_then(Value::as_object)
}

fn to_names(value: Option<&Value>) -> Vec<String> {
    let names = value.and_then(Value::as_array).into_iter().flatten();
    names
        .filter_map(|name| name.as_str().map(str::to_owned))
        .collect()
}

fn deduplicate(names: &mut Vec<String>) {
    let mut unique_names = HashSet::new();
    names.retain(|name| unique_names.insert(name.clone()));
}
