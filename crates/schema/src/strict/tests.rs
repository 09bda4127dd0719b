use super::*;

fn tool(properties: Value, required: Value) -> Value {
    let mut schema = json!({"type": "object"});
    schema["properties"] = properties;
    schema["required"] = required;
    schema
}

#[test]
fn h1_every_property_is_required_and_optional_ones_may_be_null() {
    let schema = tool(
        json!({
            "q": {"type": "string", "description": "What", "pattern": "^a"},
            "unit": {"type": "string", "enum": ["m", "ft"], "default": "m"},
            "n": {"type": ["integer", "string"], "minimum": 1},
            "one": {"type": "string", "const": "x"},
            "either": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
            "known": {"type": ["null", "string"]},
        }),
        json!(["q"]),
    );
    let strict = to_strict_schema(&schema).unwrap();
    assert_eq!(
        strict,
        json!({
            "type": "object",
            "required": ["q", "unit", "n", "one", "either", "known"],
            "properties": {
                "q": {"type": "string", "description": "What", "pattern": "^a"},
                "unit": {"type": ["string", "null"], "enum": ["m", "ft", null]},
                "n": {"type": ["integer", "string", "null"], "minimum": 1},
                "one": {"anyOf": [{"type": "string", "const": "x"}, {"type": "null"}]},
                "either": {"anyOf": [{"type": "string"}, {"type": "integer"}, {"type": "null"}]},
                "known": {"type": ["null", "string"]},
            },
            "additionalProperties": false,
        })
    );
}

#[test]
fn h1_objects_are_closed_at_any_depth() {
    let inner = json!({"type": "object", "properties": {"x": {"type": "string"}}});
    let closed = json!({"type": "object", "required": ["x"], "additionalProperties": false,
        "properties": {"x": {"type": ["string", "null"]}}});
    let mut schema = tool(
        json!({
            "list": {"type": "array", "items": inner},
            "either": {"anyOf": [inner, {"type": "null"}]},
            "named": {"$ref": "#/$defs/node", "description": "The first"},
            "maybe": {"$ref": "#/$defs/node"},
        }),
        json!(["list", "either", "named"]),
    );
    schema["$defs"] = json!({"node": {"type": "object", "properties": {
        "next": {"$ref": "#/$defs/node"},
    }}});
    let strict = to_strict_schema(&schema).unwrap();
    let properties = &strict["properties"];
    let node = json!({"$ref": "#/$defs/node"});
    let or_null = json!({"anyOf": [node, {"type": "null"}]});
    assert_eq!(properties["list"]["items"], closed);
    assert_eq!(properties["either"]["anyOf"][0], closed);
    assert_eq!(
        properties["named"],
        json!({"description": "The first", "anyOf": [node]})
    );
    assert_eq!(properties["maybe"], or_null);
    assert_eq!(
        strict["$defs"]["node"],
        json!({"type": "object", "required": ["next"], "properties": {"next": or_null},
            "additionalProperties": false})
    );
}

#[test]
fn h1_schemas_that_strict_cannot_express_are_not_strict() {
    assert!(to_strict_schema(&tool(json!({}), json!([]))).is_some());
    for property in [
        json!({}),
        json!(true),
        json!({"type": "object"}),
        json!({"type": "object", "additionalProperties": {"type": "string"}}),
        json!({"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": true}),
        json!({"type": "object", "properties": {}, "patternProperties": {"^a": {}}}),
        json!({"type": "array"}),
        json!({"type": "array", "items": {}}),
        json!({"type": "array", "prefixItems": [{"type": "string"}], "items": {"type": "string"}}),
        json!({"type": ["string", "object"]}),
        json!({"type": "string", "minLength": 1}),
        json!({"type": "string", "format": "uri"}),
        json!({"oneOf": [{"type": "string"}, {"type": "null"}]}),
        json!({"allOf": [{"type": "string"}]}),
        json!({"type": "string", "not": {"const": "x"}}),
        json!({"enum": ["a"]}),
        json!({"type": "string", "enum": []}),
        json!({"$ref": "https://example.com/schema.json"}),
        json!({"$ref": "#/properties/other"}),
    ] {
        let schema = tool(json!({"p": property}), json!(["p"]));
        assert_eq!(to_strict_schema(&schema), None, "{property}");
    }
    for (keyword, value) in [
        ("anyOf", json!([{"type": "object"}])),
        ("additionalProperties", json!(true)),
        ("required", json!(["unknown"])),
    ] {
        let mut schema = tool(json!({"a": {"type": "string"}}), json!([]));
        schema[keyword] = value;
        assert_eq!(to_strict_schema(&schema), None, "{keyword}");
    }
}

#[test]
fn h1_schemas_beyond_openais_limits_are_not_strict() {
    let many = |count: usize| {
        let names = (0..count).map(|nth| (nth.to_string(), json!({"type": "string"})));
        tool(Value::Object(names.collect()), json!([]))
    };
    assert!(to_strict_schema(&many(5_000)).is_some());
    assert!(to_strict_schema(&many(5_001)).is_none());
    let deep = |levels: usize| {
        let mut schema = json!({"type": "string"});
        for _ in 0..levels {
            schema = tool(json!({"a": schema}), json!([]));
        }
        schema
    };
    assert!(to_strict_schema(&deep(10)).is_some());
    assert!(to_strict_schema(&deep(11)).is_none());
    let values = |count: usize| json!({"type": "integer", "enum": (0..count).collect::<Vec<_>>()});
    assert!(to_strict_schema(&tool(json!({"a": values(1_000)}), json!([]))).is_some());
    assert!(to_strict_schema(&tool(json!({"a": values(1_001)}), json!([]))).is_none());
    let long = json!({"type": "string", "enum": ["x".repeat(120_001)]});
    assert!(to_strict_schema(&tool(json!({"a": long}), json!([]))).is_none());
}
