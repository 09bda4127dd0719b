//! Converts keywords whose form differs between JSON Schema 2020-12 and older dialects.

use serde_json::{Map, Value};

use super::keywords::subschemas_mut;

const BOUND_KEYWORDS: [(&str, &str); 2] = [
    ("exclusiveMinimum", "minimum"),
    ("exclusiveMaximum", "maximum"),
];

/// The old forms of keywords that a dialect has and JSON Schema 2020-12 does not have.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct OldForms {
    /// Whether the dialect has `exclusiveMinimum: true` beside `minimum`, as in the drafts up to 4.
    has_boolean_bounds: bool,
    /// Whether the dialect has a list in `items`, with `additionalItems` for the items after that
    /// list, as in the drafts up to 2019-09.
    has_item_lists: bool,
}

impl OldForms {
    /// Returns the old forms that the schema's declared dialect has.
    pub(super) fn from_schema(schema: &Value) -> Self {
        let dialect = schema.get("$schema").and_then(Value::as_str);
        let is_one_of = |names: &[&str]| {
            dialect.is_some_and(|dialect| names.iter().any(|name| dialect.contains(name)))
        };
        Self {
            has_boolean_bounds: is_one_of(&["draft-03", "draft-04"]),
            has_item_lists: is_one_of(&["draft-0", "2019-09"]),
        }
    }

    /// Converts old forms of keywords at any depth of a schema to the forms of 2020-12. Keeps old
    /// forms that are valid in the dialect that the schema declares. Returns whether the schema has
    /// changed.
    pub(super) fn convert_unsupported_forms(self, schema: &mut Value) -> bool {
        let is_changed = self.convert_within(schema);
        if is_changed && !self.has_item_lists {
            redirect_references(schema);
        }
        is_changed
    }

    fn convert_within(self, schema: &mut Value) -> bool {
        let Value::Object(keywords) = schema else {
            return false;
        };
        let mut is_changed = !self.has_boolean_bounds && convert_bounds(keywords);
        is_changed |= !self.has_item_lists && convert_items(keywords);
        for (keyword, value) in keywords {
            for schema in subschemas_mut(keyword, value) {
                is_changed |= self.convert_within(schema);
            }
        }
        is_changed
    }
}

fn convert_bounds(keywords: &mut Map<String, Value>) -> bool {
    let mut is_changed = false;
    for (exclusive, inclusive) in BOUND_KEYWORDS {
        let Some(Value::Bool(is_exclusive)) = keywords.get(exclusive) else {
            continue;
        };
        let bound = if *is_exclusive {
            keywords.shift_remove(inclusive)
        } else {
            None
        };
        match bound {
            Some(bound) => drop(keywords.insert(exclusive.to_owned(), bound)),
            None => drop(keywords.shift_remove(exclusive)),
        }
        is_changed = true;
    }
    is_changed
}

fn convert_items(keywords: &mut Map<String, Value>) -> bool {
    match keywords.get_mut("items") {
        // An empty list in `items` is PHP's encoding of an empty map.
        Some(Value::Array(schemas)) if !schemas.is_empty() => {
            let schemas = std::mem::take(schemas);
            match keywords.shift_remove("additionalItems") {
                Some(additional) => drop(keywords.insert("items".to_owned(), additional)),
                None => drop(keywords.shift_remove("items")),
            }
            keywords.entry("prefixItems").or_insert(schemas.into());
            true
        }
        _ => false,
    }
}

/// Adapts references to schemas in a list in `items`, because the conversion moves such a list to
/// `prefixItems`.
fn redirect_references(schema: &mut Value) {
    let Value::Object(keywords) = schema else {
        return;
    };
    if let Some(Value::String(reference)) = keywords.get_mut("$ref") {
        *reference = redirect_reference(reference);
    }
    for (keyword, value) in keywords {
        subschemas_mut(keyword, value).for_each(redirect_references);
    }
}

fn redirect_reference(reference: &str) -> String {
    let segments: Vec<_> = reference.split('/').collect();
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let new_segments = segments.iter().enumerate().map(|(index, segment)| {
        let next = segments.get(index + 1).copied().unwrap_or_default();
        match *segment {
            "items" if is_number(next) => "prefixItems",
            segment => segment,
        }
    });
    new_segments.collect::<Vec<_>>().join("/")
}
