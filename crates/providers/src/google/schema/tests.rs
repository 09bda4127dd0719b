use serde_json::{Value, json};

use crate::google::format::MAX_TOOL_SCHEMA_GROWTH;

fn parameters(schema: &Value) -> Value {
    super::convert_parameters(schema, MAX_TOOL_SCHEMA_GROWTH)
}

/// Converts an object schema with the property `p`, and returns the converted property.
fn property(property: &Value) -> Value {
    let schema = json!({"type": "object", "properties": {"p": property}});
    parameters(&schema)["properties"]["p"].clone()
}

#[test]
fn h1_supported_keywords_are_unchanged() {
    let schema = json!({
        "type": "object",
        "properties": {
            "city": {"type": "string", "title": "City", "description": "Where", "minLength": 1,
                     "maxLength": 80, "pattern": "^[A-Z]"},
            "unit": {"type": "string", "enum": ["celsius", "fahrenheit"], "default": "celsius"},
            "days": {"type": "integer", "format": "int32", "minimum": 1, "maximum": 7},
            "when": {"type": "string", "format": "date-time", "nullable": true},
            "tags": {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 3},
            "far": {"type": "boolean", "default": false},
        },
        "required": ["city"],
    });
    assert_eq!(parameters(&schema), schema);
}

#[test]
fn h1_unsupported_keywords_are_removed() {
    let unsupported = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "https://example.org/x",
        "type": "object",
        "additionalProperties": false,
        "patternProperties": {"^x": {"type": "string"}},
        "propertyNames": {"pattern": "^x"},
        "dependentRequired": {"a": ["b"]},
        "if": {}, "then": {}, "not": {},
        "properties": {
            "a": {"type": "number", "multipleOf": 2, "exclusiveMinimum": 0.5, "examples": [2]},
            "b": {"type": "array", "items": {"type": "string", "format": "uri"},
                  "uniqueItems": true, "contains": {"type": "string"}},
            "c": {"type": "object", "additionalProperties": {"type": "string"}},
        },
        "required": ["a", "ghost"],
    });
    assert_eq!(
        parameters(&unsupported),
        json!({
            "type": "object",
            "properties": {
                "a": {"type": "number", "minimum": 0.5},
                "b": {"type": "array", "items": {"type": "string"}},
                "c": {"type": "object"},
            },
            "required": ["a"],
        })
    );
}

#[test]
fn h1_a_tool_without_parameters_has_an_empty_object() {
    let empty = json!({"type": "object", "properties": {}});
    for schema in [
        json!({"type": "object", "properties": {}, "required": []}),
        json!({}),
        json!(true),
        json!({"type": "string"}),
    ] {
        assert_eq!(parameters(&schema), empty, "{schema}");
    }
}

#[test]
fn h1_null_becomes_nullable() {
    let nullable = json!({"type": "string", "description": "d", "nullable": true});
    for schema in [
        json!({"type": ["string", "null"], "description": "d"}),
        json!({"anyOf": [{"type": "string"}, {"type": "null"}], "description": "d", "default": null}),
        json!({"oneOf": [{"type": "null"}, {"type": "string", "description": "d"}]}),
        json!({"type": "null", "description": "d"}),
    ] {
        assert_eq!(property(&schema), nullable, "{schema}");
    }
    assert_eq!(
        property(&json!({"enum": ["a", null, ""]})),
        json!({"type": "string", "nullable": true, "enum": ["a"]})
    );
}

#[test]
fn h1_a_union_is_the_only_field_of_its_node() {
    assert_eq!(
        property(&json!({
            "description": "A number or a name",
            "oneOf": [{"type": "integer"}, {"type": "string", "description": "Name"}, {"type": "null"}],
        })),
        json!({"anyOf": [
            {"type": "integer", "nullable": true, "description": "A number or a name"},
            {"type": "string", "description": "Name", "nullable": true},
        ]})
    );
    assert_eq!(
        property(&json!({"type": ["string", "integer"], "minLength": 2, "minimum": 3})),
        json!({"anyOf": [{"type": "string", "minLength": 2}, {"type": "integer", "minimum": 3}]})
    );
    let conditions = json!({
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
        "anyOf": [{"required": ["a"]}, {"required": ["b"]}],
    });
    assert_eq!(property(&conditions).get("anyOf"), None);
    assert_eq!(parameters(&conditions).get("anyOf"), None);
}

#[test]
fn h1_enums_are_of_strings_only() {
    let constant = json!({"type": "string", "enum": ["a"]});
    assert_eq!(property(&json!({"const": "a"})), constant);
    for (schema, kind) in [
        (json!({"type": "integer", "enum": [1, 2]}), "integer"),
        (json!({"enum": [1, 2]}), "integer"),
        (json!({"enum": [1, 2.5]}), "number"),
        (json!({"const": true}), "boolean"),
        (json!({"enum": ["a", 1]}), "string"),
        (json!({"type": "string", "enum": []}), "string"),
    ] {
        assert_eq!(property(&schema), json!({"type": kind}), "{schema}");
    }
}

#[test]
fn h1_every_node_has_a_type() {
    for (schema, expected) in [
        (json!({}), json!({"type": "string"})),
        (json!(true), json!({"type": "string"})),
        (
            json!({"type": "ARRAY"}),
            json!({"type": "array", "items": {"type": "string"}}),
        ),
        (
            json!({"items": {"minimum": 1}}),
            json!({"type": "array", "items": {"type": "number", "minimum": 1}}),
        ),
        (
            json!({"type": "array", "prefixItems": [{"type": "number"}]}),
            json!({"type": "array", "items": {"type": "number"}}),
        ),
        (
            json!({"properties": {"x": {}}}),
            json!({"type": "object", "properties": {"x": {"type": "string"}}}),
        ),
        (
            json!({"additionalProperties": true}),
            json!({"type": "object"}),
        ),
    ] {
        assert_eq!(property(&schema), expected, "{schema}");
    }
}

#[test]
fn h1_exclusive_bounds_become_inclusive() {
    let exclusive = json!({"type": "integer", "exclusiveMinimum": 0, "exclusiveMaximum": 10});
    let inclusive = json!({"type": "integer", "minimum": 1, "maximum": 9});
    assert_eq!(property(&exclusive), inclusive);
    let extreme = json!({"type": "integer", "exclusiveMaximum": i64::MIN});
    let unchanged = json!({"type": "integer", "maximum": i64::MIN});
    assert_eq!(property(&extreme), unchanged);
    let flag = json!({"type": "number", "minimum": 1, "exclusiveMinimum": true});
    assert_eq!(property(&flag), json!({"type": "number", "minimum": 1}));
}

/// The schema is the output of pydantic for a nested model and an optional model.
#[test]
fn h1_references_are_resolved() {
    let schema = json!({
        "$defs": {"Place": {
            "type": "object",
            "title": "Place",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
        }},
        "type": "object",
        "properties": {
            "from": {"$ref": "#/$defs/Place", "description": "Start"},
            "to": {"anyOf": [{"$ref": "#/$defs/Place"}, {"type": "null"}], "default": null},
            "via": {"allOf": [{"$ref": "#/$defs/Place"}, {"properties": {"night": {"type": "boolean"}}}]},
            "gone": {"$ref": "https://example.org/place.json"},
        },
    });
    let converted = parameters(&schema);
    let city = json!({"city": {"type": "string"}});
    assert_eq!(converted.get("$defs"), None);
    let properties = &converted["properties"];
    assert_eq!(properties["from"]["properties"], city);
    assert_eq!(properties["from"]["description"], "Start");
    assert_eq!(
        properties["to"],
        json!({"type": "object", "title": "Place", "nullable": true,
               "required": ["city"], "properties": city})
    );
    assert_eq!(properties["via"]["required"], json!(["city"]));
    let night = &properties["via"]["properties"]["night"];
    assert_eq!(*night, json!({"type": "boolean"}));
    assert_eq!(properties["gone"], json!({"type": "object"}));
}

#[test]
fn h1_a_recursive_schema_ends() {
    let tree = json!({
        "$defs": {"Node": {"type": "object", "properties": {
            "name": {"type": "string"},
            "children": {"type": "array", "items": {"$ref": "#/$defs/Node"}},
        }}},
        "type": "object",
        "properties": {"tree": {"$ref": "#/$defs/Node"}, "again": {"$ref": "#"},
                       "self": {"$ref": "#/properties/self"}},
    });
    let properties = parameters(&tree)["properties"].clone();
    assert_eq!(
        properties["tree"]["properties"]["children"],
        json!({"type": "array", "items": {"type": "object"}})
    );
    assert_eq!(properties["again"], json!({"type": "object"}));
    assert_eq!(properties["self"], json!({"type": "object"}));
}

#[test]
fn h1_an_endlessly_expanding_schema_is_truncated() {
    // The schema would have 2^60 nodes if every reference were followed.
    let mut definitions = serde_json::Map::new();
    for level in 0..60 {
        let next = json!({"$ref": format!("#/$defs/{}", level + 1)});
        let object = json!({"type": "object", "properties": {"a": next, "b": next}});
        definitions.insert(level.to_string(), object);
    }
    definitions.insert("60".to_owned(), json!({"type": "string"}));
    let bomb = json!({"$defs": definitions, "type": "object",
                      "properties": {"p": {"$ref": "#/$defs/0"}}});
    assert!(parameters(&bomb).to_string().len() < 10_000_000);

    // The definitions are a long text, a long enum and a wide object, with 10,000 references to
    // each.
    for target in [
        json!({"type": "string", "description": "x".repeat(100_000)}),
        json!({"type": "string", "enum": vec!["x"; 10_000]}),
        json!({"description": "x".repeat(100_000), "anyOf": vec![json!({"type": "string"}); 100]}),
        json!({"type": "object", "properties":
            (0..10_000).map(|n| (n.to_string(), json!({}))).collect::<serde_json::Map<_, _>>()}),
    ] {
        let references: serde_json::Map<_, _> = (0..10_000)
            .map(|n| (n.to_string(), json!({"$ref": "#/$defs/t"})))
            .collect();
        let schema = json!({"$defs": {"t": target}, "type": "object", "properties": references});
        assert!(parameters(&schema).to_string().len() < 10_000_000);
    }
}

#[test]
fn h1_deep_nesting_is_truncated() {
    let mut schema = json!({"type": "string"});
    for _ in 0..500 {
        schema = json!({"type": "object", "properties": {"p": schema}});
    }
    let converted = parameters(&schema).to_string();
    assert_eq!(converted.matches("\"p\"").count(), 33);
}
