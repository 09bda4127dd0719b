use serde_json::json;

use super::*;
use crate::tool::ParameterType;

fn build(schema: Value) -> Result<ToolDefinition, DefinitionError> {
    ToolDefinition::builder("t", "d").schema(schema).build()
}

#[test]
fn a2_both_forms_of_parameters_give_a_schema() {
    let raw = json!({"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]});
    let definition = build(raw.clone()).unwrap();
    assert_eq!(definition.input_schema(), &raw);
    assert_eq!(definition.category(), "general");
    let from_php = build(json!({"type": "object", "properties": []})).unwrap();
    assert_eq!(from_php.input_schema()["properties"], json!({}));
}

#[test]
fn a3_falsy_defaults_are_written_and_required_is_always_present() {
    let definition = ToolDefinition::builder("t", "d")
        .parameter(ToolParameter::new("n", ParameterType::Integer).default_value(json!(0)))
        .parameter(ToolParameter::new("b", ParameterType::Boolean).default_value(json!(false)))
        .parameter(ToolParameter::new("s", ParameterType::String).default_value(json!("")))
        .parameter(ToolParameter::new("x", ParameterType::String).optional())
        .build()
        .unwrap();
    let parameters = definition.input_schema();
    assert_eq!(parameters["required"], json!([]));
    let number = json!({"type": "integer", "default": 0});
    assert_eq!(parameters["properties"]["n"], number);
    assert_eq!(parameters["properties"]["b"]["default"], json!(false));
    assert_eq!(parameters["properties"]["s"]["default"], json!(""));
    assert_eq!(parameters["properties"]["x"], json!({"type": "string"}));
}

#[test]
fn a4_bad_definitions_are_rejected() {
    let twice = ToolDefinition::builder("X", "d")
        .parameter(ToolParameter::new("a", ParameterType::String))
        .parameter(ToolParameter::new("a", ParameterType::String))
        .build();
    let error = twice.unwrap_err().to_string();
    assert_eq!(error, "X: Duplicate parameter names found");
    assert!(ToolDefinition::builder("", "d").build().is_err());
    assert!(ToolDefinition::builder("t", " ").build().is_err());
    assert!(build(json!({"type": "string"})).is_err());
    assert!(build(json!("x")).is_err());
}

#[test]
fn a_raw_schema_is_repaired_at_every_depth() {
    let raw = json!({"properties": {
        "rows": {"type": "array", "items": {"type": "object", "properties": [], "default": []}},
        "n": {"type": "number", "nullable": true},
    }, "$defs": [], "required": {}, "nullable": true});
    let definition = build(raw);
    let expected = json!({"type": "object", "properties": {
        "rows": {"type": "array", "items": {"type": "object", "properties": {}, "default": {}}},
        "n": {"type": ["number", "null"]},
    }, "$defs": {}, "required": []});
    assert_eq!(definition.unwrap().input_schema(), &expected);
    for properties in [json!([1]), json!("x"), json!(5)] {
        let raw = json!({"type": "object", "properties": properties});
        assert!(build(raw).is_err(), "{properties}");
    }
}

#[test]
fn e11_an_empty_list_as_default_of_a_map_is_an_empty_map() {
    let definition = build(json!({"type": "object", "properties": {
        "o": {"type": ["object", "null"], "default": []},
        "l": {"type": ["object", "array"], "default": []},
        "deep": {"type": "object", "properties": {
            "": {"$ref": "#/$defs/a~b", "default": {"m": [], "l": []}},
        }},
        "default": {"type": "array", "default": []},
    }, "$defs": {"a~b": {"type": "object", "properties": {
        "m": {"type": "object", "default": []}, "l": {"type": "array"},
    }}}}))
    .unwrap();
    let properties = &definition.input_schema()["properties"];
    assert_eq!(properties["o"]["default"], json!({}));
    assert_eq!(properties["l"]["default"], json!([]));
    let deep = &properties["deep"]["properties"][""]["default"];
    assert_eq!(*deep, json!({"m": {}, "l": []}));
    assert_eq!(properties["default"]["default"], json!([]));
    let definitions = &definition.input_schema()["$defs"];
    assert_eq!(definitions["a~b"]["properties"]["m"]["default"], json!({}));
    let listed = ToolParameter::new("o", ParameterType::Object).default_value(json!([]));
    let definition = ToolDefinition::builder("t", "d").parameter(listed);
    let schema = definition.build().unwrap().input_schema().clone();
    assert_eq!(schema["properties"]["o"]["default"], json!({}));
}
