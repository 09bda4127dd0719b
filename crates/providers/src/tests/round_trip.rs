use pillion_core::tool::{ErrorCode, ToolCall, ToolDefinition, ToolResult};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::{
    Provider, StrictFlag, assistant_messages, assistant_text, format_results, format_tool,
    format_tools_by_name, parse_tool_calls,
};

/// Returns a response body of `provider` with these calls.
fn response(provider: Provider, calls: &[ToolCall]) -> Value {
    let items: Vec<_> = calls
        .iter()
        .map(
            |ToolCall {
                 id,
                 name,
                 arguments,
                 ..
             }| match provider {
                Provider::OpenAiChat => json!({"id": id, "type": "function",
                "function": {"name": name, "arguments": arguments}}),
                Provider::OpenAiResponses => json!({"type": "function_call", "call_id": id,
                "name": name, "arguments": arguments}),
                Provider::Anthropic => json!({"type": "tool_use", "id": id, "name": name,
                "input": arguments}),
                Provider::Google => {
                    json!({"functionCall": {"id": id, "name": name, "args": arguments}})
                }
            },
        )
        .collect();
    match provider {
        Provider::OpenAiChat => json!({"choices": [{"message": {"role": "assistant",
            "content": null, "tool_calls": items}}]}),
        Provider::OpenAiResponses => json!({"output": items}),
        Provider::Anthropic => json!({"content": items}),
        Provider::Google => json!({"candidates": [{"content": {"role": "model", "parts": items}}]}),
    }
}

/// Returns a response body of `provider` with the content from [`assistant_messages`].
fn echo(provider: Provider, mut messages: Vec<Value>) -> Value {
    match provider {
        Provider::OpenAiResponses => json!({"output": messages}),
        Provider::OpenAiChat => json!({"choices": [{"message": messages.remove(0)}]}),
        Provider::Anthropic => messages.remove(0),
        Provider::Google => json!({"candidates": [{"content": messages.remove(0)}]}),
    }
}

/// Returns the IDs that the results refer to, in order.
fn ids_of_results(provider: Provider, messages: &[Value]) -> Vec<&str> {
    let entries = |key: &str| messages[0][key].as_array().unwrap().iter();
    let ids: Vec<_> = match provider {
        Provider::OpenAiChat => messages.iter().map(|m| &m["tool_call_id"]).collect(),
        Provider::OpenAiResponses => messages.iter().map(|m| &m["call_id"]).collect(),
        Provider::Anthropic => entries("content").map(|b| &b["tool_use_id"]).collect(),
        Provider::Google => entries("parts")
            .map(|p| &p["functionResponse"]["id"])
            .collect(),
    };
    ids.into_iter().filter_map(Value::as_str).collect()
}

fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(".{0,4}", inner, 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

fn object() -> impl Strategy<Value = Value> {
    prop::collection::btree_map(".{0,4}", json_value(), 0..4)
        .prop_map(|members| Value::Object(members.into_iter().collect()))
}

fn calls() -> impl Strategy<Value = Vec<ToolCall>> {
    let arguments = prop_oneof![object(), "(\\{bad|.{0,20})".prop_map(Value::from)];
    prop::collection::vec(
        (
            "[a-zA-Z0-9_-]{1,12}",
            "[a-zA-Z_][a-zA-Z0-9_-]{0,8}",
            arguments,
        ),
        1..5,
    )
    .prop_map(|calls| {
        calls
            .into_iter()
            .map(|(id, name, arguments)| ToolCall::new(id, name, arguments))
            .collect()
    })
}

proptest! {
    /// Ids, names and arguments survive the round trip.
    #[test]
    fn h5_calls_survive_the_round_trip(calls in calls()) {
        for provider in Provider::ALL {
            let response = response(provider, &calls);
            let parsed = parse_tool_calls(provider, &response).unwrap();
            prop_assert_eq!(&parsed, &calls);

            let echoed = echo(provider, assistant_messages(provider, &response).unwrap());
            let repeated_calls = parse_tool_calls(provider, &echoed).unwrap();
            prop_assert_eq!(repeated_calls.len(), calls.len());
            for (repeated_call, call) in repeated_calls.iter().zip(&calls) {
                prop_assert_eq!((&repeated_call.id, &repeated_call.name), (&call.id, &call.name));
                prop_assert_eq!(repeated_call.arguments_object(), call.arguments_object());
                // The arguments are always an object, because some providers reject a conversation
                // with arguments of any other type.
                let is_object = match &repeated_call.arguments {
                    Value::String(text) => serde_json::from_str(text).is_ok_and(|it: Value| it.is_object()),
                    arguments => arguments.is_object(),
                };
                prop_assert!(is_object, "{}", repeated_call.arguments);
            }

            let results: Vec<_> = calls.iter().enumerate().map(|(n, call)| if n % 2 == 0 {
                ToolResult::success(&call.id, &call.name, call.arguments.clone())
            } else {
                ToolResult::failure(&call.id, &call.name, ErrorCode::Timeout, "late")
            }).collect();
            let messages = format_results(provider, &results);
            let ids: Vec<_> = calls.iter().map(|call| call.id.as_str()).collect();
            prop_assert_eq!(ids_of_results(provider, &messages), ids);
        }
    }

    /// No body makes the parsers panic.
    #[test]
    fn a6_any_json_is_read_or_rejected(body in json_value(), key in prop::sample::select(
        vec!["choices", "output", "content", "candidates"])) {
        for provider in Provider::ALL {
            for body in [body.clone(), json!({key: body}), json!({key: [body]}),
                         json!({key: [{"type": "function_call", "message": body, "content": body}]}),
                         json!({"choices": [{"message": {"tool_calls": [{"function": body, "type": "x"}], "content": body}}]}),
                         json!({"candidates": [{"content": {"parts": [{"functionCall": body}]}}]})] {
                let calls = parse_tool_calls(provider, &body).is_ok();
                let messages = assistant_messages(provider, &body).is_ok();
                let _ = assistant_text(provider, &body);
                prop_assert_eq!(calls, messages);
            }
        }
    }

    /// Any JSON as a schema becomes an object schema for Google.
    #[test]
    fn h1_any_schema_can_be_formatted(property in json_value(), key in prop::sample::select(
        vec!["type", "anyOf", "allOf", "$ref", "enum", "items", "required", "properties"])) {
        let schema = json!({"properties": {"p": property, "q": {key: property}}, "required": property});
        let tool = ToolDefinition::builder("t", "d").schema(schema).build().unwrap();
        let formatted = format_tool(Provider::Google, &tool, StrictFlag::WhenTrue);
        let parameters = &formatted["parameters"];
        prop_assert_eq!(&parameters["type"], "object");
        prop_assert!(parameters["properties"]["p"].is_object());
    }
}

#[test]
fn a6_ten_thousand_calls_are_read() {
    let calls: Vec<_> = (0..10_000)
        .map(|n| ToolCall::new(format!("call_{n}"), "echo", json!({"n": n})))
        .collect();
    for provider in Provider::ALL {
        let parsed = parse_tool_calls(provider, &response(provider, &calls)).unwrap();
        assert_eq!(parsed, calls);
    }
}

#[test]
fn h1_an_unknown_provider_gets_no_tools() {
    let tool = ToolDefinition::builder("t", "d").build().unwrap();
    assert!(format_tools_by_name("gwdg", [&tool]).is_empty());
    for provider in Provider::ALL {
        assert_eq!(format_tools_by_name(provider.as_str(), [&tool]).len(), 1);
        assert!(format_results(provider, &[]).is_empty());
    }
}
