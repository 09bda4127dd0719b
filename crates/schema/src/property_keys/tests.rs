use proptest::prelude::*;
use serde_json::json;

use super::*;

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(entries) => entries,
        other => panic!("{other}"),
    }
}

#[test]
fn only_a_schema_with_other_names_is_changed() {
    let schema = json!({"properties": {"a.b-c_D9": {"type": "string"}}});
    assert_eq!(PropertyKeys::new(&schema), None);
}

#[test]
fn names_are_changed_at_any_depth_and_restored() {
    let schema = json!({
        "properties": {
            "$filter": {"type": "string", "enum": ["$filter"]},
            "_filter": {"type": "string"},
            "rows[]": {"type": "array", "items": {"$ref": "#/$defs/row"}},
        },
        "required": ["$filter"],
        "$defs": {"row": {"properties": {"uids[]": {"type": "string"}}, "required": ["uids[]"]}},
    });
    let keys = PropertyKeys::new(&schema).unwrap();
    assert_eq!(
        keys.rename_schema(&schema),
        json!({
            "properties": {
                "_filter_2": {"type": "string", "enum": ["$filter"]},
                "_filter": {"type": "string"},
                "rows__": {"type": "array", "items": {"$ref": "#/$defs/row"}},
            },
            "required": ["_filter_2"],
            "$defs": {"row": {"properties": {"uids__": {"type": "string"}}, "required": ["uids__"]}},
        })
    );
    let mut arguments =
        object(json!({"_filter_2": "x", "_filter": "y", "rows__": [{"uids__": "z"}]}));
    keys.restore(&mut arguments);
    let own = json!({"$filter": "x", "_filter": "y", "rows[]": [{"uids[]": "z"}]});
    assert_eq!(Value::from(arguments.clone()), own);
    // Arguments that already have the tool's own names stay unchanged.
    keys.restore(&mut arguments);
    assert_eq!(Value::from(arguments), own);
}

#[test]
fn names_in_dependencies_and_references_are_changed() {
    let schema = json!({
        "properties": {
            "a b": {"properties": {"c/d": {"type": "string"}}},
            "e": {"$ref": "#/properties/a%20b/properties/c~1d"},
            "f": {"$ref": "#/$defs/a b"},
        },
        "dependentRequired": {"a b": ["a b", "e"]},
        "dependentSchemas": {"a b": {"required": ["a b"]}},
        "dependencies": {"a b": ["a b"], "e": {"required": ["a b"]}},
        "$defs": {"a b": {"type": "string"}},
    });
    let keys = PropertyKeys::new(&schema).unwrap();
    assert_eq!(
        keys.rename_schema(&schema),
        json!({
            "properties": {
                "a_b": {"properties": {"c_d": {"type": "string"}}},
                "e": {"$ref": "#/properties/a_b/properties/c_d"},
                "f": {"$ref": "#/$defs/a b"},
            },
            "dependentRequired": {"a_b": ["a_b", "e"]},
            "dependentSchemas": {"a_b": {"required": ["a_b"]}},
            "dependencies": {"a_b": ["a_b"], "e": {"required": ["a_b"]}},
            "$defs": {"a b": {"type": "string"}},
        })
    );
}

#[test]
fn names_of_definitions_are_no_keywords() {
    let schema = json!({
        "$defs": {
            "properties": {"properties": {"a b": {}}, "required": ["a b"]},
            "enum": {"properties": {"a b": {"$ref": "#/$defs/properties/properties/a b"}}},
        },
        "properties": {"x": {"default": {"properties": {"a b": 1}, "required": ["a b"]}}},
        "patternProperties": {"a b": {"required": ["a b"]}},
    });
    let keys = PropertyKeys::new(&schema).unwrap();
    assert_eq!(
        keys.rename_schema(&schema),
        json!({
            "$defs": {
                "properties": {"properties": {"a_b": {}}, "required": ["a_b"]},
                "enum": {"properties": {"a_b": {"$ref": "#/$defs/properties/properties/a_b"}}},
            },
            "properties": {"x": {"default": {"properties": {"a b": 1}, "required": ["a b"]}}},
            "patternProperties": {"a b": {"required": ["a_b"]}},
        })
    );
}

#[test]
fn many_similar_names_take_no_long_time() {
    let properties: Map<_, _> = (0..20_000)
        .map(|number| (format!("{}{number}$", "x".repeat(70)), json!({})))
        .collect();
    let keys = PropertyKeys::new(&json!({"properties": properties})).unwrap();
    assert_eq!(keys.original_keys.len(), 20_000);
}

proptest! {
    #[test]
    fn every_name_is_accepted_and_can_be_restored(
        names in prop::collection::hash_set("(\\PC|[$a-c_]){0,80}", 0..30)
    ) {
        let properties: Map<_, _> = names.iter().map(|name| (name.clone(), json!({}))).collect();
        let schema = json!({"properties": properties, "required": names});
        let keys = PropertyKeys::new(&schema).unwrap_or_default();
        let renamed = keys.rename_schema(&schema);
        let mut arguments = object(renamed["properties"].clone());
        prop_assert_eq!(arguments.len(), names.len());
        prop_assert!(arguments.keys().all(|name| is_accepted(name)));
        keys.restore(&mut arguments);
        let restored: HashSet<String> = arguments.keys().cloned().collect();
        prop_assert_eq!(restored, names);
    }

    #[test]
    fn a_renamed_reference_leads_to_the_renamed_schema(schema in nested(), escapes in any::<bool>()) {
        let mut schema = schema;
        let mut targets = Vec::new();
        pointers(&schema, "", &mut targets);
        let references: Vec<_> = targets
            .iter()
            .map(|target| {
                let pointer = if escapes {
                    target.replace(' ', "%20").replace('$', "%24")
                } else {
                    target.clone()
                };
                json!({"$ref": format!("#{pointer}")})
            })
            .collect();
        schema["allOf"] = json!(references);
        let keys = PropertyKeys::new(&schema).unwrap_or_default();
        let renamed = keys.rename_schema(&schema);
        for (target, reference) in targets.iter().zip(renamed["allOf"].as_array().unwrap()) {
            let reference = reference["$ref"].as_str().unwrap();
            let pointer = percent_decode_str(&reference[1..]).decode_utf8_lossy();
            let found = renamed.pointer(&pointer);
            let id = &schema.pointer(target).unwrap()["$comment"];
            prop_assert_eq!(found.map(|found| &found["$comment"]), Some(id), "{} {}", target, reference);
        }
    }
}

/// Generates nested schemas, each with a number in `$comment`.
fn nested() -> impl Strategy<Value = Value> {
    let name = || {
        prop_oneof![
            "[a$/~ ]{1,3}",
            Just("properties".to_owned()),
            Just("$defs".to_owned()),
            Just("enum".to_owned()),
            Just("0".to_owned()),
        ]
    };
    let leaf = any::<u32>().prop_map(|number| json!({"$comment": number}));
    leaf.prop_recursive(4, 24, 3, move |inner| {
        let named = prop::collection::btree_map(name(), inner.clone(), 1..3);
        let keyword = "properties|\\$defs|definitions|dependentSchemas|patternProperties";
        prop_oneof![
            (named, keyword, any::<u32>())
                .prop_map(|(named, keyword, number)| json!({"$comment": number, keyword: named})),
            (prop::collection::vec(inner.clone(), 1..3), any::<u32>())
                .prop_map(|(list, number)| json!({"$comment": number, "anyOf": list})),
            (inner, any::<u32>())
                .prop_map(|(items, number)| json!({"$comment": number, "items": items})),
        ]
    })
}

/// Adds the JSON pointers of all schemas within `schema`.
fn pointers(schema: &Value, pointer: &str, found: &mut Vec<String>) {
    if !pointer.is_empty() {
        found.push(pointer.to_owned());
    }
    for (keyword, value) in schema.as_object().unwrap() {
        let escaped = |name: &str| name.replace('~', "~0").replace('/', "~1");
        match value {
            Value::Object(named) if keyword != "items" => {
                for (name, schema) in named {
                    let pointer = format!("{pointer}/{keyword}/{}", escaped(name));
                    pointers(schema, &pointer, found);
                }
            }
            Value::Object(_) => pointers(value, &format!("{pointer}/{keyword}"), found),
            Value::Array(list) => {
                for (index, schema) in list.iter().enumerate() {
                    pointers(schema, &format!("{pointer}/{keyword}/{index}"), found);
                }
            }
            _ => {}
        }
    }
}
