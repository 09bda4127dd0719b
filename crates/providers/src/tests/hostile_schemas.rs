//! Malicious schemas: the size of the formatted tools stays near the size of the definitions.

use pillion_core::tool::ToolDefinition;
use serde_json::{Map, Value, json};

use crate::{Provider, StrictFlag, format_tools, format_tools_with};

/// Maximum size of the formatted tools of one request, in bytes, in addition to a few times the
/// size of the definitions.
const MAX_ADDED_BYTES: usize = 2_000_000;

/// Returns definitions `d0` to `dN`, of which each contains `link` of a reference to the next.
fn linked(count: usize, link: impl Fn(Value) -> Value, end: Value) -> Value {
    let mut definitions: Map<_, _> = (0..count)
        .map(|nth| {
            let next = json!({"$ref": format!("#/$defs/d{}", nth + 1)});
            (format!("d{nth}"), link(next))
        })
        .collect();
    definitions.insert(format!("d{count}"), end);
    json!({
        "type": "object",
        "properties": {"x": {"$ref": "#/$defs/d0"}, "y": {"$ref": "#/$defs/d0"}},
        "$defs": definitions,
    })
}

/// Returns an object with references to one definition.
fn repeated(references: usize, target: &Value) -> Value {
    let references: Map<_, _> = (0..references)
        .map(|nth| (format!("p{nth}"), json!({"$ref": "#/$defs/t"})))
        .collect();
    json!({"type": "object", "properties": references, "$defs": {"t": target}})
}

fn hostile_schemas() -> Vec<Value> {
    let text = "x".repeat(2_000);
    let kinds = json!(["string", "number", "boolean", "array", "object"]);
    let properties = |next: Value| json!({"type": "object", "properties": {"a": next, "b": next}});
    let mut nested = json!({"type": "string"});
    for _ in 0..30 {
        nested = json!({"type": kinds, "items": nested, "properties": {"p": nested.clone()}});
        if nested.to_string().len() > 20_000 {
            break;
        }
    }
    vec![
        linked(16, properties, json!({"type": "string"})),
        linked(
            16,
            |next| json!({"anyOf": [next, next, {"type": "null"}]}),
            json!({"description": text}),
        ),
        linked(
            16,
            |next| json!({"oneOf": [{"items": next, "type": "array"}, next]}),
            json!({}),
        ),
        linked(
            16,
            |next| json!({"allOf": [{"properties": {"a": next}}, {"properties": {"b": next}}]}),
            json!({"enum": ["a", "b"]}),
        ),
        linked(
            16,
            |next| json!({"type": ["object", "array"], "properties": {"a": next}, "items": next}),
            json!({"type": kinds, "description": text}),
        ),
        linked(
            8,
            |next| json!({"anyOf": [properties(next.clone()), properties(next)], "description": text}),
            json!({"type": "string"}),
        ),
        repeated(200, &json!({"type": "string", "description": text})),
        repeated(
            200,
            &json!({"type": "string", "title": text, "pattern": text}),
        ),
        repeated(200, &json!({"type": "string", "enum": vec!["xyz"; 200]})),
        repeated(
            200,
            &json!({"required": vec!["x"; 200], "properties": {"x": {}}}),
        ),
        repeated(
            200,
            &json!({"anyOf": vec![json!({"type": "string"}); 50], "description": text}),
        ),
        repeated(
            200,
            &json!({"type": kinds, "description": text, "default": text}),
        ),
        json!({"type": "object", "properties": {"x": nested}}),
    ]
}

fn size(tools: &[Value]) -> usize {
    tools.iter().map(|tool| tool.to_string().len()).sum()
}

#[test]
fn the_formatted_tools_of_a_request_are_not_a_multiple_of_their_definitions() {
    let schemas = hostile_schemas();
    for count in [1, 60] {
        for strict in [false, true] {
            for (kind, schema) in schemas.iter().enumerate() {
                let tools: Vec<_> = (0..count)
                    .map(|nth| {
                        ToolDefinition::builder(format!("t{nth}"), "Works")
                            .schema(schema.clone())
                            .strict(strict)
                            .build()
                            .unwrap()
                    })
                    .collect();
                let schema_bytes = count * schema.to_string().len();
                for provider in Provider::ALL {
                    let formatted = format_tools_with(provider, &tools, StrictFlag::WhenTrue);
                    assert_eq!(formatted.len(), count);
                    let bytes = size(&formatted);
                    assert!(
                        bytes <= 8 * schema_bytes + MAX_ADDED_BYTES,
                        "{provider:?} {count} x schema {kind}: {schema_bytes} bytes became {bytes}"
                    );
                }
            }
        }
    }
}

#[test]
fn a_hostile_tool_takes_nothing_from_the_others() {
    let hostile = &hostile_schemas()[0];
    let item = json!({"type": "object", "properties": {"city": {"type": "string"}}});
    let usual = repeated(5, &item);
    let named = |name: &str, schema: &Value| {
        let tool = ToolDefinition::builder(name, "Works").schema(schema.clone());
        tool.build().unwrap()
    };
    let mut tools = vec![named("hostile", hostile); 30];
    tools.push(named("usual", &usual));
    let formatted = format_tools(Provider::Google, &tools);
    let properties = &formatted[30]["parameters"]["properties"];
    assert_eq!(properties["p4"]["properties"]["city"]["type"], "string");
    assert_eq!(formatted[0]["parameters"]["type"], "object");
}
