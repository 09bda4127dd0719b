use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::{CompiledSchema, repair};

#[test]
fn references_to_the_items_of_lists_still_lead_to_them() {
    let schema = json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "properties": {
            "pair": {"items": [{"type": "string"}, {"items": [{"type": "integer"}]}]},
            "other": {"$ref": "#/properties/pair/items/1/items/0"},
        },
    });
    let converted = to_portable_schema(&schema);
    let reference = &converted["properties"]["other"]["$ref"];
    assert_eq!(reference, "#/properties/pair/prefixItems/1/prefixItems/0");
    CompiledSchema::compile(&converted).unwrap();
}

#[test]
fn forms_that_the_declared_dialect_does_not_have_are_repaired() {
    let parts = json!({
        "n": {"minimum": 1, "exclusiveMinimum": true},
        "m": {"maximum": 1, "exclusiveMaximum": false},
        "list": {"items": [{}], "additionalItems": {"type": "null"}},
        "ref": {"$ref": "#/properties/list/items/0"},
        "data": {"enum": [{"items": [1], "$ref": "#/properties/list/items/0"}]},
    });
    let dialects = [
        (None, true, true),
        (
            Some("https://json-schema.org/draft/2020-12/schema"),
            true,
            true,
        ),
        (
            Some("https://json-schema.org/draft/2019-09/schema"),
            true,
            false,
        ),
        (Some("http://json-schema.org/draft-07/schema#"), true, false),
        (
            Some("http://json-schema.org/draft-04/schema#"),
            false,
            false,
        ),
    ];
    for (dialect, bounds, lists) in dialects {
        let mut schema = json!({"properties": parts});
        if let Some(dialect) = dialect {
            schema["$schema"] = json!(dialect);
        }
        assert_eq!(repair(&mut schema), bounds || lists, "{dialect:?}");
        let n = &schema["properties"]["n"];
        assert_eq!(*n == json!({"exclusiveMinimum": 1}), bounds, "{dialect:?}");
        let list = &schema["properties"]["list"];
        assert_eq!(list.get("prefixItems").is_some(), lists, "{dialect:?}");
        assert_eq!(schema["properties"]["data"], parts["data"]);
        CompiledSchema::compile(&schema).unwrap();
        let converted = to_portable_schema(&schema).into_owned();
        assert_eq!(converted["properties"]["n"], json!({"exclusiveMinimum": 1}));
        assert_eq!(converted["properties"]["m"], json!({"maximum": 1}));
        let list = json!({"prefixItems": [{}], "items": {"type": "null"}});
        assert_eq!(converted["properties"]["list"], list);
        let converted_again = to_portable_schema(&converted).into_owned();
        assert_eq!(converted_again, converted);
        CompiledSchema::compile(&converted).unwrap();
    }
}

#[test]
fn a_property_stays_whatever_its_schema_is() {
    let schema = json!({"properties": {"a": ["b"], "c": null, "d": {"type": "int"}}});
    let expected = json!({"properties": {"a": {}, "c": {}, "d": {}}});
    assert_eq!(*to_portable_schema(&schema), expected);
}

/// Generates values that are invalid for most keywords.
fn odd_value() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(json!(null)),
        Just(json!(true)),
        Just(json!(-1)),
        Just(json!(1.5)),
        Just(json!(0)),
        Just(json!("any")),
        Just(json!("a#b")),
        Just(json!("#/$defs/nothing")),
        Just(json!([])),
        Just(json!(["a", "a"])),
        Just(json!(["string", 1])),
        Just(json!([{}, 1])),
        Just(json!({})),
        Just(json!({"a": 1, "b": {}, "c": ["d"]})),
    ]
}

const KEYWORDS: [&str; 51] = [
    "$anchor",
    "$comment",
    "$defs",
    "$dynamicAnchor",
    "$dynamicRef",
    "$id",
    "$recursiveAnchor",
    "$recursiveRef",
    "$ref",
    "$vocabulary",
    "additionalItems",
    "additionalProperties",
    "allOf",
    "anyOf",
    "const",
    "contains",
    "contentEncoding",
    "contentMediaType",
    "default",
    "definitions",
    "dependencies",
    "dependentRequired",
    "dependentSchemas",
    "deprecated",
    "description",
    "else",
    "enum",
    "examples",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "format",
    "items",
    "maxItems",
    "maximum",
    "minContains",
    "minLength",
    "multipleOf",
    "not",
    "oneOf",
    "pattern",
    "patternProperties",
    "prefixItems",
    "properties",
    "propertyNames",
    "readOnly",
    "required",
    "title",
    "type",
    "unevaluatedItems",
    "uniqueItems",
    "unknown",
];

fn odd_schema() -> impl Strategy<Value = Value> {
    let leaf = prop::collection::btree_map(prop::sample::select(&KEYWORDS[..]), odd_value(), 0..4)
        .prop_map(|keywords| json!(keywords));
    leaf.prop_recursive(3, 24, 3, |inner| {
        let keywords = prop::collection::btree_map(
            prop::sample::select(&KEYWORDS[..]),
            prop_oneof![
                odd_value(),
                inner.clone(),
                prop::collection::vec(inner.clone(), 0..3).prop_map(|list| json!(list)),
                prop::collection::btree_map("[ab]", inner, 0..3).prop_map(|named| json!(named)),
            ],
            0..4,
        );
        keywords.prop_map(|keywords| json!(keywords))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn every_schema_becomes_valid_and_a_valid_one_stays(schema in odd_schema()) {
        let converted = to_portable_schema(&schema);
        let valid = jsonschema::draft202012::meta::validate(&converted);
        prop_assert!(valid.is_ok(), "{:?} {}", valid, converted);
        prop_assert_eq!(to_portable_schema(&converted), Cow::Borrowed(&*converted));
    }
}
