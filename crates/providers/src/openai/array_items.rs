//! Adds the `items` of arrays. OpenAI rejects a request with an array without `items`, even beside
//! `prefixItems`.

use pillion_schema::subschemas_mut;
use serde_json::{Map, Value, json};

/// Adds `items` that allow everything to the arrays without `items`.
pub(super) fn add_items(schema: &mut Value) {
    let Some(keywords) = schema.as_object_mut() else {
        return;
    };
    if is_array(keywords) && !keywords.get("items").is_some_and(Value::is_object) {
        keywords.insert("items".to_owned(), json!({}));
    }
    for (keyword, value) in keywords {
        subschemas_mut(keyword, value).for_each(add_items);
    }
}

fn is_array(keywords: &Map<String, Value>) -> bool {
    let has_array_type = match keywords.get("type") {
        Some(Value::Array(names)) => names.contains(&json!("array")),
        Some(name) => name == "array",
        None => false,
    };
    has_array_type || keywords.contains_key("items") || keywords.contains_key("prefixItems")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_get_items_at_any_depth() {
        let mut schema = json!({
            "properties": {
                "tags": {"type": "array"},
                "size": {"anyOf": [
                    {"type": ["array", "null"], "prefixItems": [{"type": "array"}], "items": false},
                    {"enum": [{"type": "array"}]},
                ]},
                "rows": {"type": "array", "items": {"items": true}},
            },
        });
        add_items(&mut schema);
        let expected = json!({
            "properties": {
                "tags": {"type": "array", "items": {}},
                "size": {"anyOf": [
                    {
                        "type": ["array", "null"],
                        "prefixItems": [{"type": "array", "items": {}}],
                        "items": {},
                    },
                    {"enum": [{"type": "array"}]},
                ]},
                "rows": {"type": "array", "items": {"items": {}}},
            },
        });
        assert_eq!(schema, expected);
    }
}
