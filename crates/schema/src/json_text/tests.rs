use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::MAX_CHECK_TIME;

fn repair(schema: &Value, arguments: &Value) -> (Option<bool>, Value) {
    let schema = CompiledSchema::compile(schema).unwrap();
    let mut coerced = arguments.as_object().cloned().unwrap();
    let repaired = schema.repair_within(&mut coerced, OptionalNull::Absent, MAX_CHECK_TIME);
    (repaired.unwrap().ok(), Value::Object(coerced))
}

fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "n": {"type": "integer"},
            "x": {"type": ["number", "null"]},
            "b": {"type": "boolean"},
            "rows": {"type": "array", "items": {"type": "integer"}},
            "o": {"type": "object", "properties": {"deep": {"type": "array"}}},
            "s": {"type": "string"},
            "either": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
            "any": {},
            "union": {"oneOf": [{"type": "integer"}, {"type": "boolean"}]},
            "level": {"enum": [1, 2]},
            "node": {"$ref": "#/$defs/node"},
        },
        "$defs": {"node": {"type": "object", "properties": {
            "value": {"type": "integer"}, "next": {"$ref": "#/$defs/node"}}}},
    })
}

#[test]
fn c3_text_is_decoded_where_the_schema_allows_no_text() {
    for (arguments, expected) in [
        (json!({"n": "10"}), json!({"n": 10})),
        (json!({"n": " -3 "}), json!({"n": -3})),
        (json!({"n": "\"10\""}), json!({"n": 10})),
        (json!({"x": "1.5e3"}), json!({"x": 1500.0})),
        (json!({"x": "null"}), json!({"x": null})),
        (json!({"b": "true"}), json!({"b": true})),
        (json!({"b": "False"}), json!({"b": false})),
        (json!({"rows": "[1, 2]"}), json!({"rows": [1, 2]})),
        (json!({"rows": ["1", 2]}), json!({"rows": [1, 2]})),
        (json!({"rows": "[\"1\", 2]"}), json!({"rows": [1, 2]})),
        (
            json!({"o": "{\"deep\": \"[]\"}"}),
            json!({"o": {"deep": []}}),
        ),
        (json!({"o": "[]"}), json!({"o": {}})),
        (json!({"union": "true"}), json!({"union": true})),
        (json!({"union": "1"}), json!({"union": 1})),
        (json!({"level": "2"}), json!({"level": 2})),
        (
            json!({"node": "{\"value\": \"1\", \"next\": \"{\\\"value\\\": 2}\"}"}),
            json!({"node": {"value": 1, "next": {"value": 2}}}),
        ),
        // Only the text that can be repaired changes.
        (
            json!({"n": "10", "s": "10", "either": "10", "any": "[1]", "unknown": "1"}),
            json!({"n": 10, "s": "10", "either": "10", "any": "[1]", "unknown": "1"}),
        ),
    ] {
        assert_eq!(
            repair(&schema(), &arguments),
            (Some(true), expected),
            "{arguments}"
        );
    }
}

#[test]
fn c3_nothing_else_is_repaired() {
    for arguments in [
        json!({"n": "10.5"}),
        json!({"n": "ten"}),
        json!({"n": ""}),
        json!({"n": "0x10"}),
        json!({"n": "123456789012345678901234567890"}),
        json!({"n": [10]}),
        json!({"n": true}),
        json!({"b": "yes"}),
        json!({"b": "1"}),
        json!({"b": 1}),
        json!({"rows": "1, 2"}),
        json!({"rows": "[1, 2"}),
        json!({"rows": "{}"}),
        json!({"rows": "[1.5]"}),
        json!({"o": "[1]"}),
        json!({"s": 10}),
        json!({"level": "3"}),
        // One value of several cannot be repaired.
        json!({"n": "10", "b": "yes"}),
    ] {
        assert_eq!(
            repair(&schema(), &arguments),
            (None, arguments.clone()),
            "{arguments}"
        );
    }
}

#[test]
fn c3_the_alternative_decides_what_is_text() {
    let schema = json!({"anyOf": [
        {"properties": {"op": {"const": "add"}, "by": {"type": "integer"}}, "required": ["op"]},
        {"properties": {"op": {"const": "say"}, "by": {"type": "string", "maxLength": 3}}, "required": ["op"]},
    ]});
    let add = json!({"op": "add", "by": "10"});
    assert_eq!(
        repair(&schema, &add),
        (Some(true), json!({"op": "add", "by": 10}))
    );
    let say = json!({"op": "say", "by": "10"});
    assert_eq!(repair(&schema, &say), (Some(false), say.clone()));
    for unclear in [
        json!({"op": "say", "by": "1000"}),
        json!({"op": "sing", "by": "10"}),
    ] {
        assert_eq!(repair(&schema, &unclear), (None, unclear.clone()));
    }
}

/// Generates a schema, and a value that matches the schema.
fn schema_and_value() -> impl Strategy<Value = (Value, Value)> {
    let leaf = prop_oneof![
        any::<i64>().prop_map(|n| (json!({"type": "integer"}), json!(n))),
        (-1.0e6..1.0e6f64).prop_map(|x| (json!({"type": "number"}), json!(x))),
        any::<bool>().prop_map(|b| (json!({"type": "boolean"}), json!(b))),
        r#"[\[\]{}0-9a-f",: ]{0,8}"#.prop_map(|s| (json!({"type": "string"}), json!(s))),
        any::<i32>().prop_map(|n| (
            json!({"anyOf": [{"type": "string"}, {"type": "integer"}]}),
            json!(n.to_string())
        )),
        any::<i32>().prop_map(|n| (json!({}), json!(n))),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            (inner.clone(), 0..4usize).prop_map(|((schema, value), count)| (
                json!({"type": "array", "items": schema}),
                json!(vec![value; count])
            )),
            prop::collection::btree_map("[a-c]{1,2}", inner, 0..4).prop_map(|members| {
                let members = members.into_iter();
                let (schemas, values): (Map<_, _>, Map<_, _>) = members
                    .map(|(name, (schema, value))| ((name.clone(), schema), (name, value)))
                    .unzip();
                let schema = json!({"type": "object", "properties": schemas});
                (schema, Value::Object(values))
            }),
        ]
    })
}

/// Returns whether the schema of a member allows text.
fn allows_text(schema: &Value) -> bool {
    schema["type"] == "string" || schema["type"].is_null()
}

proptest! {
    #[test]
    fn c3_an_encoded_value_is_given_back_and_a_valid_value_stays(
        (schema, value) in schema_and_value(),
        encodings in 1..3usize,
    ) {
        let schema = json!({"type": "object", "properties": {"v": schema}});
        let valid = json!({"v": value});
        prop_assert_eq!(repair(&schema, &valid), (Some(false), valid.clone()));
        let text = (0..encodings).fold(value, |value, _| json!(value.to_string()));
        let (repaired, coerced) = repair(&schema, &json!({"v": text}));
        if allows_text(&schema["properties"]["v"]) {
            prop_assert_eq!((repaired, coerced), (Some(false), json!({"v": text})));
        } else {
            prop_assert_eq!((repaired, coerced), (Some(true), valid));
        }
    }

    /// Valid arguments stay unchanged, and repaired arguments match the schema.
    #[test]
    fn c3_repaired_arguments_match(
        (schema, _) in schema_and_value(),
        (_, value) in schema_and_value(),
        is_encoded: bool,
    ) {
        let schema = json!({"type": "object", "properties": {"v": schema}});
        let value = if is_encoded { json!(value.to_string()) } else { value };
        let arguments = json!({"v": value});
        let compiled = CompiledSchema::compile(&schema).unwrap();
        match repair(&schema, &arguments) {
            (Some(true), coerced) => {
                prop_assert_eq!(compiled.mismatch(&coerced), None);
                prop_assert!(compiled.mismatch(&arguments).is_some());
            }
            // Valid arguments may contain `[]` in place of `{}`.
            (Some(false), coerced) => prop_assert_eq!(compiled.mismatch(&coerced), None),
            (None, coerced) => prop_assert_eq!(coerced, arguments),
        }
    }
}
