use proptest::prelude::*;

use super::*;
use crate::CompiledSchema;

/// Returns the repaired schema of a property.
fn repaired(property: Value) -> Value {
    let mut schema = json!({"properties": {}});
    schema["properties"]["p"] = property;
    repair(&mut schema);
    schema["properties"]["p"].take()
}

/// Keywords whose value is a schema.
const WITH_ONE_SCHEMA: [&str; 12] = [
    "additionalItems",
    "additionalProperties",
    "contains",
    "contentSchema",
    "else",
    "if",
    "items",
    "not",
    "propertyNames",
    "then",
    "unevaluatedItems",
    "unevaluatedProperties",
];

/// Keywords whose value is a list of schemas.
const WITH_LIST: [&str; 4] = ["allOf", "anyOf", "oneOf", "prefixItems"];

/// Keywords whose value is a map of schemas.
const WITH_NAMED_SCHEMAS: [&str; 6] = [
    "$defs",
    "definitions",
    "dependencies",
    "dependentSchemas",
    "patternProperties",
    "properties",
];

#[test]
fn an_empty_map_is_repaired_everywhere_in_a_schema() {
    let expected = json!({"type": "object", "properties": {}});
    let php_schema = json!({"type": "object", "properties": []});
    for keyword in WITH_ONE_SCHEMA {
        let nested = repaired(json!({keyword: php_schema}));
        assert_eq!(nested, json!({keyword: expected}));
        assert_eq!(repaired(json!({keyword: []})), json!({keyword: {}}));
    }
    for keyword in WITH_LIST {
        let nested = repaired(json!({keyword: [php_schema, []]}));
        assert_eq!(nested, json!({keyword: [expected, {}]}));
    }
    let nested = repaired(json!({"items": [php_schema, []]}));
    assert_eq!(nested, json!({"prefixItems": [expected, {}]}));
    for keyword in WITH_NAMED_SCHEMAS {
        let nested = repaired(json!({keyword: {"a": php_schema, "b": []}}));
        assert_eq!(nested, json!({keyword: {"a": expected, "b": {}}}));
        assert_eq!(repaired(json!({keyword: []})), json!({keyword: {}}));
    }
    let nested = repaired(json!({"dependentRequired": []}));
    assert_eq!(nested, json!({"dependentRequired": {}}));
}

#[test]
fn data_and_unknown_keywords_are_unchanged() {
    for schema in [
        json!({"enum": [[], {}, null, {"0": 1}], "default": [], "const": [], "examples": [[], {}]}),
        json!({"default": null, "const": null, "example": [], "required": [], "x-map": []}),
        json!({"properties": {"properties": {"default": []}, "required": {"enum": [[]]},
            "nullable": {"type": "string"}, "0": {"type": "integer"}}}),
        json!({"dependencies": {"a": ["b"]}, "dependentRequired": {"a": []}}),
        json!({"anyOf": [true, false], "not": true, "type": ["string", "null"]}),
        json!({"nullable": true, "type": "string", "x-mcp-header": "Region"}),
        json!({"nullable": "true", "type": "string"}),
    ] {
        let mut whole = json!({"properties": {"p": schema}});
        let is_changed = repair(&mut whole);
        assert_eq!(whole, json!({"properties": {"p": schema}}));
        assert!(!is_changed, "{schema}");
    }
    for root in [json!([]), Value::Null, json!(true), json!("x")] {
        let mut schema = root.clone();
        assert!(!repair(&mut schema));
        assert_eq!(schema, root);
    }
}

#[test]
fn a_list_with_gaps_is_a_list() {
    for (php_schema, expected) in [
        (json!({"required": {}}), json!({"required": []})),
        (
            json!({"required": {"0": "a", "2": "b"}}),
            json!({"required": ["a", "b"]}),
        ),
        (
            json!({"enum": {"1": "a", "3": {}}, "type": {"0": "string", "2": "object"}}),
            json!({"enum": ["a", {}], "type": ["string", "object"]}),
        ),
        (
            json!({"type": "OBJECT", "required": "a", "properties": {
                "a": {"type": ["String", "NULL"]}, "type": {"type": "Text", "enum": ["OBJECT"]},
            }}),
            json!({"type": "object", "required": ["a"], "properties": {
                "a": {"type": ["string", "null"]}, "type": {"type": "Text", "enum": ["OBJECT"]},
            }}),
        ),
        (
            json!({"anyOf": {"1": {"properties": []}}}),
            json!({"anyOf": [{"properties": {}}]}),
        ),
        (
            json!({"dependentRequired": {"a": {}, "b": {"1": "c"}}}),
            json!({"dependentRequired": {"a": [], "b": ["c"]}}),
        ),
        (
            json!({"required": {"a": true}}),
            json!({"required": {"a": true}}),
        ),
    ] {
        assert_eq!(repaired(php_schema), expected);
    }
}

#[test]
fn null_is_an_absent_keyword() {
    let php_schema = json!({
        "type": null, "description": null, "enum": null, "minimum": null, "properties": null,
        "required": null, "items": null, "anyOf": null, "default": null, "const": null,
    });
    let expected = json!({"default": null, "const": null});
    assert_eq!(repaired(php_schema), expected);
    let php_schema = json!({"properties": {"a": null}, "anyOf": [null]});
    let expected = json!({"properties": {"a": {}}, "anyOf": [{}]});
    assert_eq!(repaired(php_schema), expected);
}

/// Wraps a schema in another schema. Also returns the function that wraps a value in the same way.
type WrapSchema = fn(Value) -> (Value, fn(Value) -> Value);

#[test]
fn a_nullable_schema_allows_null_and_what_it_allowed_before() {
    let schemas = [
        (json!({"type": "number"}), json!(1), json!("x")),
        (json!({"type": ["number", "string"]}), json!(1), json!([])),
        (
            json!({"type": "string", "enum": ["a"]}),
            json!("a"),
            json!("b"),
        ),
        (json!({"enum": ["a", 1]}), json!(1), json!("b")),
        (json!({"const": "a"}), json!("a"), json!("b")),
        (json!({"$ref": "#/$defs/N"}), json!(1), json!("x")),
        (
            json!({"allOf": [{"$ref": "#/$defs/N"}], "description": "d"}),
            json!(1),
            json!("x"),
        ),
        (
            json!({"type": "number", "allOf": [{"$ref": "#/$defs/N"}]}),
            json!(1),
            json!("x"),
        ),
        (
            json!({"anyOf": [{"type": "number"}, {"type": "boolean"}]}),
            json!(true),
            json!("x"),
        ),
        (
            json!({"type": "number", "anyOf": [{"minimum": 5}]}),
            json!(7),
            json!(1),
        ),
        (
            json!({"oneOf": [{"type": "number"}, {"type": "boolean"}]}),
            json!(1),
            json!("x"),
        ),
        (json!({"not": {"type": "null"}}), json!(1), Value::Null),
        (
            json!({"type": "object", "properties": {"a": {"type": "string"}}}),
            json!({"a": "b"}),
            json!({"a": 1}),
        ),
        (
            json!({"type": "array", "items": {"type": "string"}}),
            json!(["a"]),
            json!([1]),
        ),
    ];
    let wraps: [WrapSchema; 4] = [
        |schema| (json!({"properties": {"v": schema}}), |v| json!({"v": v})),
        |schema| (json!({"additionalProperties": schema}), |v| json!({"x": v})),
        |schema| {
            let list = json!({"type": "array", "items": schema});
            (json!({"properties": {"v": list}}), |v| json!({"v": [v]}))
        },
        |schema| {
            let reference = json!({"$ref": "#/definitions/V"});
            let definitions = json!({"V": schema});
            let whole = json!({"properties": {"v": reference}, "definitions": definitions});
            (whole, |v| json!({"v": v}))
        },
    ];
    for (schema, right, wrong) in schemas {
        for wrap in wraps {
            let mut nullable = schema.clone();
            nullable["nullable"] = json!(true);
            let (mut whole, wrap_value) = wrap(nullable);
            whole["type"] = json!("object");
            whole["$defs"] = json!({"N": {"type": "number"}});
            assert!(repair(&mut whole));
            assert!(!whole.to_string().contains("nullable"), "{whole}");
            let compiled = CompiledSchema::compile(&whole).unwrap();
            for (value, is_valid) in [(&right, true), (&Value::Null, true), (&wrong, false)] {
                if value.is_null() && !is_valid {
                    continue;
                }
                let mismatch = compiled.mismatch(&wrap_value(value.clone()));
                assert_eq!(
                    mismatch.is_none(),
                    is_valid,
                    "{whole} {value}: {mismatch:?}"
                );
            }
            let repaired_again = whole.clone();
            assert!(!repair(&mut whole));
            assert_eq!(whole, repaired_again);
        }
    }
}

#[test]
fn a_nullable_schema_keeps_its_description_and_its_definitions() {
    let described = json!({"allOf": [{"$ref": "#/$defs/N"}], "nullable": true, "title": "T",
        "description": "d", "default": null, "x-mine": 1, "$defs": {"a": {}}});
    let expected = json!({"title": "T", "description": "d", "default": null, "x-mine": 1,
        "$defs": {"a": {}}, "anyOf": [{"allOf": [{"$ref": "#/$defs/N"}]}, {"type": "null"}]});
    assert_eq!(repaired(described), expected);
    let union = json!({"anyOf": [{"type": "string"}], "nullable": true});
    let expected = json!({"anyOf": [{"type": "string"}, {"type": "null"}]});
    assert_eq!(repaired(union), expected);
    let plain = json!({"type": "string", "nullable": false});
    assert_eq!(repaired(plain), json!({"type": "string"}));
    // Arguments are always objects, even if the root is `nullable`.
    let mut root = json!({"type": "object", "nullable": true});
    assert!(repair(&mut root));
    assert_eq!(root, json!({"type": "object"}));
}

/// Generates any JSON value that is not part of a schema.
fn data() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!([])),
        Just(json!({})),
        Just(Value::Null),
        Just(json!({"properties": [], "required": {}})),
        any::<i32>().prop_map(Value::from),
    ];
    leaf.prop_recursive(2, 8, 3, |inner| {
        prop::collection::vec(inner, 0..3).prop_map(Value::from)
    })
}

/// Generates any schema, with all keywords that contain schemas, and with data.
fn schema() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        3 => Just(json!({})),
        1 => Just(json!({"type": "string"})),
        1 => any::<bool>().prop_map(Value::from),
        1 => data().prop_map(|data| json!({"default": data, "const": data, "x-data": data})),
        1 => prop::collection::vec(data(), 0..3)
            .prop_map(|data| json!({"enum": data, "examples": data})),
        1 => Just(json!({"required": [], "dependentRequired": {}})),
    ];
    leaf.prop_recursive(5, 64, 4, |inner| {
        let one = prop::sample::select(&WITH_ONE_SCHEMA[..]);
        let named = prop::sample::select(&WITH_NAMED_SCHEMAS[..]);
        let list = prop::sample::select(&WITH_LIST[..]);
        let names = "[a-z0]{1,3}|properties|default|enum|required|nullable";
        prop_oneof![
            (one, inner.clone()).prop_map(|(keyword, schema)| json!({keyword: schema})),
            (
                named,
                prop::collection::hash_map(names, inner.clone(), 0..4)
            )
                .prop_map(|(keyword, schemas)| json!({"type": "object", keyword: schemas})),
            (list, prop::collection::vec(inner, 1..4))
                .prop_map(|(keyword, schemas)| json!({keyword: schemas})),
        ]
    })
}

/// Returns a schema as PHP writes it: each empty map for which `next` returns `true` is a list.
fn written_by_php(schema: &Value, next: &mut impl FnMut() -> bool) -> Value {
    let Value::Object(keywords) = schema else {
        return schema.clone();
    };
    if keywords.is_empty() && next() {
        return json!([]);
    }
    let keywords = keywords.iter().map(|(keyword, value)| {
        let php_schema = match (SubschemaKind::from_keyword(keyword), value) {
            (SubschemaKind::NoSchema, value) => match keyword.as_str() {
                "dependentRequired" if next() => json!([]),
                "required" if next() => json!({}),
                _ => value.clone(),
            },
            (SubschemaKind::Map, Value::Object(named)) if named.is_empty() && next() => json!([]),
            (SubschemaKind::Map, Value::Object(named)) => {
                let php_schema = named
                    .iter()
                    .map(|(name, schema)| (name.clone(), written_by_php(schema, next)));
                Value::Object(php_schema.collect())
            }
            (_, Value::Array(schemas)) => {
                let php_schema = schemas.iter().map(|schema| written_by_php(schema, next));
                Value::Array(php_schema.collect())
            }
            (_, schema) => written_by_php(schema, next),
        };
        (keyword.clone(), php_schema)
    });
    Value::Object(keywords.collect())
}

proptest! {
    #[test]
    fn every_schema_survives_php(
        schemas in prop::collection::hash_map("[a-z]{1,3}", schema(), 1..4),
        choices in prop::collection::vec(any::<bool>(), 64),
    ) {
        let properties: Map<_, _> = schemas.into_iter().collect();
        let schema = json!({"type": "object", "properties": properties});
        let mut choices = choices.into_iter().cycle();
        let mut php_schema = written_by_php(&schema, &mut || choices.next().unwrap_or(true));
        let is_same = php_schema == schema;
        prop_assert_eq!(repair(&mut php_schema), !is_same);
        prop_assert_eq!(&php_schema, &schema);
        prop_assert!(!repair(&mut php_schema), "a repaired schema needs no repair");
    }
}
