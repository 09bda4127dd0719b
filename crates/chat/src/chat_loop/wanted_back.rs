use pillion_core::provider::Provider;
use serde_json::{Map, Value};

/// What of a message's members a provider wants back, or likes to have: what the model thought, in the
/// words of DeepSeek and others, and Gemini's signatures.
const OF_MESSAGE: [&str; 4] = [
    "reasoning_content",
    "reasoning",
    "reasoning_details",
    "extra_content",
];

/// What a call has that is no other's: the rest of its members is the provider's own.
const OF_CALL: [&str; 4] = ["id", "type", "function", "index"];

/// What a provider wants back with an answer's words and calls, in the members of OpenAI's chat
/// completions; nothing where it speaks another way.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct WantedBack {
    /// Members of the message.
    pub message: Map<String, Value>,
    /// Members of each call, in the order of the calls.
    pub calls: Vec<Map<String, Value>>,
}

impl WantedBack {
    /// That of a response with calls of functions at these places. The response has been read already.
    pub(super) fn of(provider: Provider, response: &Value, places: &[usize]) -> Self {
        let message = match provider {
            Provider::OpenAiChat => &response["choices"][0]["message"],
            _ => &Value::Null,
        };
        let functions = message["tool_calls"].as_array().into_iter().flatten();
        let functions =
            functions.filter(|call| call["type"].is_null() || call["type"] == "function");
        let functions: Vec<_> = functions.collect();
        let calls = places.iter().map(|place| {
            let call = functions.get(*place);
            members(call.copied(), |name| !OF_CALL.contains(&name))
        });
        Self {
            message: members(Some(message), |name| OF_MESSAGE.contains(&name)),
            calls: calls.collect(),
        }
    }
}

fn members(value: Option<&Value>, is_wanted: impl Fn(&str) -> bool) -> Map<String, Value> {
    let members = value.and_then(Value::as_object).into_iter().flatten();
    let members = members.filter(|(name, value)| is_wanted(name) && !value.is_null());
    members
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}
