use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::JsonObject;
use crate::json_values;

/// A tool call as the model requested it.
///
/// `arguments` is stored as received: an object, or a string that contains JSON. The executor
/// parses it, so that invalid JSON fails only this call.
///
/// ```
/// use pillion_core::tool::ToolCall;
/// let call: ToolCall = serde_json::from_str(
///     r#"{"id": "call_1", "name": "calculator", "arguments": "{\"expression\": \"1+1\"}"}"#,
/// ).unwrap();
/// assert_eq!(call.kind, "function");
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// The provider's ID of the call, which the result repeats.
    pub id: String,
    /// The name or an alias of the tool.
    pub name: String,
    /// The arguments: an object, or a string that contains JSON.
    #[serde(default)]
    pub arguments: Value,
    /// The type of the call; always `function`.
    #[serde(default = "function", rename = "type")]
    pub kind: String,
    /// The index of the call among the calls of one model response, if the provider sends an index.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<u32>,
}

fn function() -> String {
    "function".to_owned()
}

impl ToolCall {
    /// Creates a call of type `function` without an index.
    #[must_use]
    pub fn new(id: impl Into<String>, name: impl Into<String>, arguments: Value) -> Self {
        Self {
            id: id.into(),
            name: name.into(),
            arguments,
            kind: function(),
            index: None,
        }
    }

    /// Returns the arguments as a JSON string, for OpenAI's formats. A string that contains an
    /// object is returned unchanged; everything else becomes
    /// [`arguments_object`](Self::arguments_object), because many OpenAI-compatible servers reject
    /// a conversation that contains invalid arguments.
    ///
    /// ```
    /// use pillion_core::tool::ToolCall;
    /// use serde_json::json;
    /// let text = |arguments| ToolCall::new("1", "roll", arguments).arguments_text();
    /// assert_eq!(text(json!("{ \"n\": 2 }")), "{ \"n\": 2 }");
    /// assert_eq!(text(json!("{bad")), "{\"INVALID_JSON\":\"{bad\"}");
    /// assert_eq!(text(json!(null)), "{}");
    /// ```
    #[must_use]
    pub fn arguments_text(&self) -> String {
        arguments_text(&self.arguments)
    }

    /// Returns the arguments as an object, for the formats of Anthropic and Google. Arguments that
    /// are not an object become `{"INVALID_JSON": text}`, as Anthropic's documentation recommends.
    /// A call with such arguments has failed, but stays in the conversation.
    ///
    /// ```
    /// use pillion_core::tool::ToolCall;
    /// use serde_json::json;
    /// let object = |arguments| ToolCall::new("1", "roll", arguments).arguments_object();
    /// assert_eq!(object(json!("{\"n\": 2}")), json!({"n": 2}));
    /// assert_eq!(object(json!("{bad")), json!({"INVALID_JSON": "{bad"}));
    /// assert_eq!(object(json!(null)), json!({}));
    /// ```
    #[must_use]
    pub fn arguments_object(&self) -> Value {
        arguments_object(&self.arguments)
    }
}

/// Maximum number of times that a model's arguments may be encoded as a JSON string inside a JSON
/// string.
const MAX_ENCODINGS: usize = 4;

/// Parses the arguments that a model has written as text. Some models encode an object twice, as a
/// JSON string that contains the object, or write a list for an empty object. The result is an
/// object if the text can be read as an object.
///
/// # Errors
/// The text, or a text that it encodes, is not JSON.
pub(crate) fn parse_arguments(text: &str) -> serde_json::Result<Value> {
    let mut value = parse_text(text)?;
    for _ in 1..MAX_ENCODINGS {
        value = match value {
            Value::String(inner_text) => parse_text(&inner_text)?,
            decoded_value => return Ok(decoded_value),
        };
    }
    Ok(value)
}

fn parse_text(text: &str) -> serde_json::Result<Value> {
    if text.trim().is_empty() {
        return Ok(json!({}));
    }
    Ok(match json_values::from_str(text)? {
        Value::Null => json!({}),
        Value::Array(items) if items.is_empty() => json!({}),
        value => value,
    })
}

/// Returns arguments as a JSON string, like [`ToolCall::arguments_text`].
#[must_use]
pub fn arguments_text(arguments: &Value) -> String {
    match arguments {
        Value::String(text) if json_values::from_str::<JsonObject>(text).is_ok() => text.clone(),
        value => arguments_object(value).to_string(),
    }
}

/// Returns arguments as an object, like [`ToolCall::arguments_object`].
#[must_use]
pub fn arguments_object(arguments: &Value) -> Value {
    match arguments {
        Value::Object(_) => arguments.clone(),
        Value::Null => json!({}),
        // PHP encodes an empty array as `[]` even if the array represents an object.
        Value::Array(items) if items.is_empty() => json!({}),
        Value::String(text) => match parse_arguments(text) {
            Ok(object @ Value::Object(_)) => object,
            _ => json!({ "INVALID_JSON": text }),
        },
        value => json!({ "INVALID_JSON": value.to_string() }),
    }
}
