use pillion_core::provider::Provider;
use serde_json::{Map, Value};

/// The members of a message that providers want to receive back: the model's thinking, as DeepSeek
/// and others name it, and Gemini's signatures.
const MESSAGE_MEMBERS: [&str; 4] = [
    "reasoning_content",
    "reasoning",
    "reasoning_details",
    "extra_content",
];

/// The standard members of a call; all other members are specific to the provider.
const CALL_MEMBERS: [&str; 4] = ["id", "type", "function", "index"];

/// The provider-specific members of an answer and its calls that the provider wants to receive
/// back, in the format of OpenAI's Chat Completions; empty for other providers.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ProviderMembers {
    /// Members of the message.
    pub message: Map<String, Value>,
    /// Members of each call, in the order of the calls.
    pub calls: Vec<Map<String, Value>>,
}

impl ProviderMembers {
    /// Extracts the members from a valid response; `indexes` are the positions of the calls among
    /// the response's function calls.
    pub(super) fn of(provider: Provider, response: &Value, indexes: &[usize]) -> Self {
        let message = match provider {
            Provider::OpenAiChat => &response["choices"][0]["message"],
            _ => &Value::Null,
        };
        let functions = message["tool_calls"].as_array().into_iter().flatten();
        let functions =
            functions.filter(|call| call["type"].is_null() || call["type"] == "function");
        let functions: Vec<_> = functions.collect();
        let calls = indexes.iter().map(|index| {
            let call = functions.get(*index);
            members(call.copied(), |name| !CALL_MEMBERS.contains(&name))
        });
        Self {
            message: members(Some(message), |name| MESSAGE_MEMBERS.contains(&name)),
            calls: calls.collect(),
        }
    }
}

fn members(value: Option<&Value>, is_included: impl Fn(&str) -> bool) -> Map<String, Value> {
    let members = value.and_then(Value::as_object).into_iter().flatten();
    let members = members.filter(|(name, value)| is_included(name) && !value.is_null());
    members
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}
