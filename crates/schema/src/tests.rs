use super::*;
use serde_json::json;

fn check(schema: &Value, arguments: Value) -> Result<Value, String> {
    let mut arguments = match arguments {
        Value::Object(arguments) => arguments,
        other => panic!("{other} is no object"),
    };
    CompiledSchema::compile(schema)
        .unwrap()
        .validate(&mut arguments)
        .map(|()| Value::Object(arguments))
        .map_err(|violation| violation.to_string())
}

fn search() -> Value {
    json!({"type": "object", "properties": {
        "query": {"type": "string"},
        "num_results": {"type": "integer", "default": 5},
        "format": {"type": "string", "enum": ["full", "date", "time"]},
        "nested": {"type": "object", "properties": {"list": {"type": "array", "items": {"type": "number"}}}},
    }, "required": ["query"]})
}

#[test]
fn c3_missing_and_wrong_parameters_have_exact_messages() {
    let schema = search();
    let error = |arguments| check(&schema, arguments).unwrap_err();
    assert_eq!(error(json!({})), "Missing required parameter: query");
    assert_eq!(
        error(json!({"query": "x", "num_results": "5"})),
        "Invalid type for num_results: expected integer"
    );
    assert_eq!(
        error(json!({"query": "x", "num_results": true})),
        "Invalid type for num_results: expected integer"
    );
    assert_eq!(
        error(json!({"query": "x", "format": "iso"})),
        "Invalid value for format: must be one of ['full', 'date', 'time']"
    );
    assert_eq!(
        error(json!({"query": "x", "nested": {"list": [1, "2"]}})),
        "Invalid type for nested.list[1]: expected number"
    );
}

#[test]
fn c3_the_first_wrong_parameter_is_reported() {
    let message = check(&search(), json!({"format": "x", "num_results": "y"})).unwrap_err();
    assert_eq!(message, "Missing required parameter: query");
    let message = check(
        &search(),
        json!({"format": "x", "num_results": "y", "query": "q"}),
    )
    .unwrap_err();
    assert_eq!(message, "Invalid type for num_results: expected integer");
}

#[test]
fn c3_whole_floats_are_integers_and_defaults_are_filled_in() {
    let filled = check(&search(), json!({"query": "x", "num_results": 5.0})).unwrap();
    assert_eq!(filled["num_results"], json!(5.0));
    let filled = check(&search(), json!({"query": "x"})).unwrap();
    assert_eq!(filled["num_results"], json!(5));
}

#[test]
fn a5_every_keyword_of_the_subset_holds_at_any_depth() {
    let schema = json!({"type": "object", "properties": {"order": {
        "type": "object",
        "description": "What to deliver",
        "properties": {"items": {"type": "array", "items": {
            "type": "object",
            "properties": {
                "size": {"type": "string", "enum": ["s", "l"], "default": "s"},
                "count": {"type": "integer"},
            },
            "required": ["count"],
        }}},
        "required": ["items"],
    }}, "required": ["order"]});
    let with = |items| check(&schema, json!({"order": {"items": items}}));
    assert!(with(json!([{"count": 1}, {"count": 2, "size": "l"}])).is_ok());
    let error = |items| with(items).unwrap_err();
    assert_eq!(
        error(json!([{"count": 1}, {}])),
        "Missing required parameter: order.items[1].count"
    );
    assert_eq!(
        error(json!([{"count": 1, "size": "m"}])),
        "Invalid value for order.items[0].size: must be one of ['s', 'l']"
    );
    assert_eq!(
        error(json!({})),
        "Invalid type for order.items: expected array"
    );
}

#[test]
fn a_remote_reference_is_never_fetched() {
    for reference in ["http://127.0.0.1:9/schema.json", "file:///etc/hostname"] {
        let schema = json!({"type": "object", "properties": {"a": {"$ref": reference}}});
        assert!(CompiledSchema::compile(&schema).is_err(), "{reference}");
    }
}

#[test]
fn a_message_never_repeats_a_long_value() {
    let long = "x".repeat(100_000);
    let message = check(&search(), json!({"query": "x", "format": long})).unwrap_err();
    assert!(message.len() < 300, "{}", message.len());
}

fn accepted(schema: &Value, arguments: Value) -> Value {
    check(schema, arguments).unwrap()
}

fn object(properties: Value) -> Value {
    let mut schema = json!({"type": "object"});
    schema["properties"] = properties;
    schema
}

#[test]
fn e11_an_empty_list_becomes_an_empty_map_where_only_a_map_is_valid() {
    let map = json!({"type": "object"});
    let with_map = object(json!({"o": map}));
    for schema in [
        map.clone(),
        json!({"type": ["object", "null"]}),
        json!({"type": "object", "required": []}),
        json!({"anyOf": [{"type": "string"}, map]}),
        json!({"anyOf": [with_map, map]}),
        json!({"allOf": [{}, {"type": ["object", "array"]}, map]}),
        json!({"$ref": "#/$defs/map"}),
        json!({"enum": ["x", {}]}),
    ] {
        let mut schema = object(json!({"o": schema}));
        schema["$defs"] = json!({"map": {"type": "object"}});
        assert_eq!(
            accepted(&schema, json!({"o": []})),
            json!({"o": {}}),
            "{schema}"
        );
    }
    let deep = object(json!({"l": {"type": "array", "items": with_map}, "m": {
        "type": "object", "additionalProperties": map, "patternProperties": {"^x": map},
    }}));
    assert_eq!(
        accepted(
            &deep,
            json!({"l": [{"o": []}, []], "m": {"a": [], "xb": []}})
        ),
        json!({"l": [{"o": {}}, {}], "m": {"a": {}, "xb": {}}})
    );
}

#[test]
fn e11_an_empty_list_is_unchanged_where_a_list_is_valid() {
    for schema in [
        json!({}),
        json!(true),
        json!({"type": "array"}),
        json!({"type": ["object", "array"]}),
        json!({"anyOf": [{"type": "object"}, {"type": "array"}]}),
        json!({"properties": {"a": {}}}),
    ] {
        let schema = object(json!({"o": schema}));
        assert_eq!(
            accepted(&schema, json!({"o": []})),
            json!({"o": []}),
            "{schema}"
        );
    }
    // A list of items would match, but this list is empty, so the list itself is the error.
    let schema =
        object(json!({"o": {"anyOf": [{"type": "object"}, {"type": "array", "minItems": 1}]}}));
    assert!(check(&schema, json!({"o": []})).is_err());
    let text = object(json!({"o": {"type": "string"}}));
    assert_eq!(
        check(&text, json!({"o": []})).unwrap_err(),
        "Invalid type for o: expected string"
    );
    let object_schema = object(json!({"o": false}));
    assert!(check(&object_schema, json!({"o": []})).is_err());
}

#[test]
fn e11_the_matching_variant_decides_about_empty_lists() {
    let kind = |word: &str, value: Value| {
        json!({"type": "object", "properties": {"kind": {"const": word}, "value": value},
            "required": ["kind"]})
    };
    let schema = object(json!({"a": {"type": "array", "items": {"oneOf": [
        kind("map", json!({"type": "object"})),
        kind("list", json!({"type": "array", "items": {}})),
    ]}}}));
    assert_eq!(
        accepted(
            &schema,
            json!({"a": [{"kind": "map", "value": []}, {"kind": "list", "value": []}]})
        ),
        json!({"a": [{"kind": "map", "value": {}}, {"kind": "list", "value": []}]})
    );
}

#[test]
fn null_for_an_optional_parameter_can_count_as_omitted() {
    let schema = json!({"type": "object", "properties": {
        "q": {"type": "string"},
        "n": {"type": "integer", "default": 5},
        "any": {},
        "o": {"type": "object", "properties": {"x": {"enum": ["a"]}, "y": {"type": ["string", "null"]}}},
    }, "required": ["q"]});
    let compiled = CompiledSchema::compile(&schema).unwrap();
    let read = |arguments: Value, nulls| {
        let mut arguments = arguments.as_object().cloned().unwrap_or_default();
        let read = compiled.validate_with_nulls(&mut arguments, nulls);
        read.map(|()| Value::Object(arguments))
            .map_err(|error| error.to_string())
    };
    let arguments = json!({"q": "x", "n": null, "any": null, "o": {"x": null, "y": null}});
    assert_eq!(
        read(arguments.clone(), OptionalNull::Absent).unwrap(),
        json!({"q": "x", "any": null, "o": {"y": null}, "n": 5})
    );
    assert_eq!(
        read(arguments, OptionalNull::Invalid).unwrap_err(),
        "Invalid type for n: expected integer"
    );
    assert_eq!(
        read(json!({"q": null}), OptionalNull::Absent).unwrap_err(),
        "Invalid type for q: expected string"
    );
}

#[test]
fn a_hostile_schema_for_empty_lists_is_bounded() {
    let twice = json!({"anyOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/a"}]});
    let mut schema = object(json!({"o": {"$ref": "#/$defs/a"}, "n": {"type": "integer"}}));
    schema["$defs"] = json!({"a": {"type": "object", "additionalProperties": twice}});
    let mut nested = json!([]);
    for _ in 0..60 {
        nested = json!({"x": nested, "y": []});
    }
    let started_at = std::time::Instant::now();
    assert!(check(&schema, json!({"o": nested, "n": "x"})).is_err());
    assert!(started_at.elapsed() < Duration::from_secs(20));
}

#[test]
fn errors_refer_to_the_original_schema() {
    for (schema, reason) in [
        (
            json!({"not": {"type": "string", "pattern": "a"}}),
            r#"{"type":"string","pattern":"a"} is not allowed for the value"#,
        ),
        (
            json!({"not": {"allOf": [{"properties": {"x": true}}], "minLength": 1}}),
            r#"{"allOf":[{"properties":{"x":true}}],"minLength":1} is not allowed for the value"#,
        ),
    ] {
        let schema = object(json!({"o": schema}));
        let message = check(&schema, json!({"o": "a"})).unwrap_err();
        assert_eq!(message, format!("Invalid value for o: {reason}"));
        let compiled = CompiledSchema::compile(&schema).unwrap();
        let message = compiled.mismatch(&json!({"o": "a"})).unwrap();
        assert!(!message.contains("x-pillion"), "{message}");
    }
    let names = object(json!({"o": {"propertyNames": {"not": {"pattern": "^x"}}}}));
    assert_eq!(
        check(&names, json!({"o": {"xy": 1}})).unwrap_err(),
        r#"Invalid value for o: {"pattern":"^x"} is not allowed for "xy""#
    );
    let old = json!({"$schema": "http://json-schema.org/draft-07/schema#", "type": "object",
        "definitions": {"s": {"type": "string"}},
        "properties": {"o": {"not": {"$ref": "#/definitions/s"}}}});
    assert_eq!(
        check(&old, json!({"o": "a"})).unwrap_err(),
        r##"Invalid value for o: {"$ref":"#/definitions/s"} is not allowed for the value"##
    );
}

#[test]
fn schema_errors_have_the_path_in_the_original_schema() {
    for (schema, path) in [
        (json!({"pattern": "("}), "/properties/o/pattern"),
        (
            json!({"allOf": [{}, {"pattern": "("}]}),
            "/properties/o/allOf/1/pattern",
        ),
        (
            json!({"items": [{"type": "string"}]}),
            "/properties/o/items",
        ),
        (
            json!({"not": {"properties": {"a": 5}}}),
            "/properties/o/not/properties/a",
        ),
    ] {
        let error = CompiledSchema::compile(&object(json!({"o": schema}))).unwrap_err();
        assert_eq!(error.path, path);
        assert!(!error.reason.contains("x-pillion"), "{}", error.reason);
    }
}
