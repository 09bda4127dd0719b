//! Converts keywords whose form differs between JSON Schema 2020-12 and older dialects.

use serde_json::{Map, Value};

use super::keywords::subschemas_mut;

const BOUNDS: [(&str, &str); 2] = [
    ("exclusiveMinimum", "minimum"),
    ("exclusiveMaximum", "maximum"),
];

/// Whether a dialect has the forms that JSON Schema 2020-12 does not have.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct OldForms {
    /// `exclusiveMinimum: true` beside `minimum`, up to draft 4.
    boolean_bounds: bool,
    /// A list in `items`, with `additionalItems` for the further items, up to 2019-09.
    item_lists: bool,
}

impl OldForms {
    /// Returns the old forms that the schema's declared dialect has.
    pub(super) fn from_schema(schema: &Value) -> Self {
        let declared = schema.get("$schema").and_then(Value::as_str);
        let is_any = |names: &[&str]| {
            declared.is_some_and(|declared| names.iter().any(|name| declared.contains(name)))
        };
        Self {
            boolean_bounds: is_any(&["draft-03", "draft-04"]),
            item_lists: is_any(&["draft-0", "2019-09"]),
        }
    }

    /// Converts the forms in a schema, at any depth, that the schema's dialect does not have.
    /// Returns whether the schema has changed.
    pub(super) fn convert_others(self, schema: &mut Value) -> bool {
        let is_changed = self.convert_within(schema);
        if is_changed && !self.item_lists {
            redirect_references(schema);
        }
        is_changed
    }

    fn convert_within(self, schema: &mut Value) -> bool {
        let Value::Object(keywords) = schema else {
            return false;
        };
        let mut is_changed = !self.boolean_bounds && convert_bounds(keywords);
        is_changed |= !self.item_lists && convert_items(keywords);
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
    for (exclusive, inclusive) in BOUNDS {
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
                Some(further) => drop(keywords.insert("items".to_owned(), further)),
                None => drop(keywords.shift_remove("items")),
            }
            keywords.entry("prefixItems").or_insert(schemas.into());
            true
        }
        _ => false,
    }
}

/// Changes references to items of lists, because the conversion moves these lists to `prefixItems`.
fn redirect_references(schema: &mut Value) {
    let Value::Object(keywords) = schema else {
        return;
    };
    if let Some(Value::String(reference)) = keywords.get_mut("$ref") {
        *reference = redirected(reference);
    }
    for (keyword, value) in keywords {
        subschemas_mut(keyword, value).for_each(redirect_references);
    }
}

fn redirected(reference: &str) -> String {
    let segments: Vec<_> = reference.split('/').collect();
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|it| it.is_ascii_digit());
    let redirected = segments.iter().enumerate().map(|(index, segment)| {
        let next = segments.get(index + 1).copied().unwrap_or_default();
        match *segment {
            "items" if is_number(next) => "prefixItems",
            segment => segment,
        }
    });
    redirected.collect::<Vec<_>>().join("/")
}
