//! Each provider rejects a whole request because of one tool that violates the provider's rules.
//! The formatted tools follow the rules, whatever the definition of a tool is.

use pillion_core::tool::{JsonObject, ToolDefinition};
use pillion_schema::{PropertyKeys, subschemas};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::{Provider, StrictFlag, format_tool};

fn key() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-d]",
        Just("properties".to_owned()),
        Just("anyOf".to_owned()),
        Just("required".to_owned()),
        "[$a-b\\[\\]<@ ]{0,4}",
        "[a-z]{60,70}",
    ]
}

fn schema() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!({})),
        Just(json!(true)),
        Just(json!({"type": "string", "minLength": 2, "default": "$x"})),
        Just(json!({"type": ["integer", "null"]})),
        Just(json!({"type": ["array", "null"]})),
        Just(json!({"prefixItems": [{}]})),
        Just(json!({"type": "number", "minimum": 1, "exclusiveMinimum": true})),
        Just(json!({"items": [{"type": "string"}, {}], "additionalItems": false})),
        Just(json!({"$ref": "#/$defs/list/items/0"})),
        Just(json!({"enum": ["a", 1, null]})),
        Just(json!({"const": {"properties": {"$": 1}}})),
        Just(json!({"$ref": "#/$defs/a"})),
        Just(json!({"$ref": "#"})),
        Just(json!({"$ref": "https://example.com/schema"})),
    ];
    leaf.prop_recursive(4, 24, 3, |inner| {
        let properties = prop::collection::btree_map(key(), inner.clone(), 0..3);
        let list = prop::collection::vec(inner.clone(), 0..3);
        prop_oneof![
            (properties, prop::collection::vec(key(), 0..3)).prop_map(
                |(properties, required)| json!({"properties": properties, "required": required})
            ),
            (list, "anyOf|oneOf|allOf").prop_map(|(list, keyword)| json!({keyword: list})),
            inner
                .clone()
                .prop_map(|items| json!({"type": "array", "items": items})),
            inner.clone().prop_map(|not| json!({"not": not})),
            (inner.clone(), inner).prop_map(
                |(one, other)| json!({"if": one, "then": other, "additionalProperties": false})
            ),
        ]
    })
}

/// Generates a root that combines the parts, and definitions for the references.
fn root() -> impl Strategy<Value = JsonObject> {
    (prop::collection::vec(schema(), 1..4), schema(), dialect()).prop_map(
        |(parts, definition, dialect)| {
            let mut root = Map::new();
            for part in parts {
                root.extend(part.as_object().cloned().unwrap_or_default());
            }
            root.insert("type".to_owned(), json!("object"));
            let list = json!({"items": [{"type": "string"}]});
            root.insert("$defs".to_owned(), json!({"a": definition, "list": list}));
            if let Some(dialect) = dialect {
                root.insert("$schema".to_owned(), json!(dialect));
            }
            root
        },
    )
}

fn dialect() -> impl Strategy<Value = Option<&'static str>> {
    prop_oneof![
        Just(None),
        Just(Some("https://json-schema.org/draft/2020-12/schema")),
        Just(Some("http://json-schema.org/draft-07/schema#")),
        Just(Some("http://json-schema.org/draft-04/schema#")),
    ]
}

/// Returns whether every array in the schema has `items`.
fn has_items(schema: &Value) -> bool {
    let Some(keywords) = schema.as_object() else {
        return true;
    };
    let names_array = match keywords.get("type") {
        Some(Value::Array(names)) => names.contains(&json!("array")),
        name => name == Some(&json!("array")),
    };
    let is_array = names_array || keywords.contains_key("prefixItems");
    (!is_array || keywords.get("items").is_some_and(Value::is_object))
        && keywords
            .iter()
            .all(|(keyword, value)| subschemas(keyword, value).all(has_items))
}

fn check_keys(schema: &Value, is_accepted: &impl Fn(&str) -> bool) -> Result<(), String> {
    match schema {
        Value::Array(items) => items
            .iter()
            .try_for_each(|item| check_keys(item, is_accepted)),
        Value::Object(entries) => entries.iter().try_for_each(|(keyword, value)| match value {
            _ if ["enum", "const", "default"].contains(&keyword.as_str()) => Ok(()),
            Value::Object(properties) if keyword == "properties" => {
                match properties.keys().find(|key| !is_accepted(key)) {
                    Some(key) => Err(format!("the property {key:?}")),
                    None => properties
                        .values()
                        .try_for_each(|schema| check_keys(schema, is_accepted)),
                }
            }
            value => check_keys(value, is_accepted),
        }),
        _ => Ok(()),
    }
}

/// Checks a formatted tool with the rules that the providers' documentation and errors state.
fn check(provider: Provider, tool: &Value) -> Result<(), String> {
    let tool = match provider {
        Provider::OpenAiChat => &tool["function"],
        _ => tool,
    };
    let schema = match provider {
        Provider::Anthropic => &tool["input_schema"],
        _ => &tool["parameters"],
    };
    let (max_name, max_description) = match provider {
        Provider::Anthropic => (128, usize::MAX),
        Provider::Google => (64, usize::MAX),
        Provider::OpenAiChat | Provider::OpenAiResponses => (64, 1_024),
    };
    let name = tool["name"].as_str().unwrap();
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    if name.len() > max_name || !name.bytes().all(is_name) {
        return Err(format!("the name {name}"));
    }
    if tool["description"].as_str().unwrap().chars().count() > max_description {
        return Err("the description".to_owned());
    }
    let root = schema.as_object().unwrap();
    if root.get("type") != Some(&json!("object")) || !root["properties"].is_object() {
        return Err(format!("the root {schema}"));
    }
    let rejected = ["anyOf", "oneOf", "allOf", "enum", "not", "const"];
    if let Some(keyword) = rejected.iter().find(|keyword| root.contains_key(**keyword)) {
        return Err(format!("{keyword} at the root"));
    }
    // Providers ignore the name of an older dialect.
    let mut read = schema.clone();
    read.as_object_mut().unwrap().remove("$schema");
    if let Err(error) = jsonschema::draft202012::meta::validate(&read) {
        return Err(format!("{error}"));
    }
    match provider {
        Provider::Anthropic => check_keys(schema, &|key| {
            let is_key = |byte: u8| is_name(byte) || byte == b'.';
            (1..=64).contains(&key.len()) && key.bytes().all(is_key)
        }),
        Provider::OpenAiChat | Provider::OpenAiResponses if !has_items(schema) => {
            Err(format!("an array without items {schema}"))
        }
        _ => Ok(()),
    }
}

proptest! {
    #[test]
    fn what_is_sent_follows_the_rules_of_each_provider(
        schema in root(),
        name in "[a-z_][a-z0-9_-]{0,127}",
        description in "[a-z][a-z\\PC ]{0,1500}",
        strict in any::<bool>(),
    ) {
        let builder = ToolDefinition::builder(name, description.clone());
        let definition = builder.schema(schema.into()).strict(strict).build().unwrap();
        for provider in Provider::ALL {
            for flag in [StrictFlag::WhenTrue, StrictFlag::Always] {
                let tool = format_tool(provider, &definition, flag);
                prop_assert_eq!(check(provider, &tool), Ok(()), "{:?} {}", provider, tool);
            }
        }
        // The whole description is sent.
        let tool = format_tool(Provider::OpenAiChat, &definition, StrictFlag::WhenTrue);
        let rest = tool["function"]["parameters"]["description"].as_str().unwrap_or_default();
        let sent = format!("{}{rest}", tool["function"]["description"].as_str().unwrap());
        let words = |text: &str| text.split_whitespace().collect::<String>();
        prop_assert!(words(&sent).starts_with(&words(&description)));
    }

    #[test]
    fn arguments_with_the_names_for_a_model_get_their_own_names(schema in root()) {
        let schema = Value::from(schema);
        let keys = PropertyKeys::new(&schema).unwrap_or_default();
        let definition = ToolDefinition::builder("t", "d").schema(schema.clone()).build().unwrap();
        let sent = format_tool(Provider::Anthropic, &definition, StrictFlag::WhenTrue);
        let names = sent["input_schema"]["properties"].as_object().unwrap().keys();
        let mut arguments: JsonObject = names.map(|name| (name.clone(), json!(1))).collect();
        keys.restore(&mut arguments);
        let text = schema.to_string();
        for name in arguments.keys() {
            prop_assert!(text.contains(&json!(name).to_string()), "{} is not in {}", name, text);
        }
    }
}
