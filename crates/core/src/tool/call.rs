use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// A tool call as a model asked for it (requirement A6).
///
/// `arguments` is kept as it came: an object, or a string that holds JSON. The executor
/// parses it, so that bad JSON becomes a failed result and nothing else.
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
    /// The provider's id of the call; the result carries it back.
    pub id: String,
    /// The name of the tool, or an alias of it.
    pub name: String,
    /// The arguments: an object, or a string of JSON.
    #[serde(default)]
    pub arguments: Value,
    /// Always `function` today.
    #[serde(default = "function", rename = "type")]
    pub kind: String,
    /// The place of the call among those of one answer, where the provider says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<u32>,
}

fn function() -> String {
    "function".to_owned()
}

impl ToolCall {
    /// A call of kind `function` without an index.
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

    /// The arguments as the string of JSON that OpenAI's formats carry. Text that is an object stays as
    /// it is; anything else becomes [`arguments_object`](Self::arguments_object): many imitations
    /// refuse a conversation with a call whose arguments they cannot read.
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

    /// The arguments as the object that the formats of Anthropic and Google carry. What is none (the
    /// call has failed for that, requirement A6) becomes `{"INVALID_JSON": text}`, which is how
    /// Anthropic's documentation hands it back to the model.
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

/// See [`ToolCall::arguments_text`].
pub(crate) fn arguments_text(arguments: &Value) -> String {
    match arguments {
        Value::String(text) if serde_json::from_str::<Map<String, Value>>(text).is_ok() => {
            text.clone()
        }
        other => arguments_object(other).to_string(),
    }
}

/// See [`ToolCall::arguments_object`].
pub(crate) fn arguments_object(arguments: &Value) -> Value {
    let empty = || Value::Object(Map::new());
    match arguments {
        Value::Object(_) => arguments.clone(),
        Value::Null => empty(),
        // What PHP makes of an empty object (E11).
        Value::Array(items) if items.is_empty() => empty(),
        Value::String(text) if text.trim().is_empty() => empty(),
        Value::String(text) => match serde_json::from_str(text) {
            Ok(object @ Value::Object(_)) => object,
            Ok(Value::Array(items)) if items.is_empty() => empty(),
            _ => json!({ "INVALID_JSON": text }),
        },
        other => json!({ "INVALID_JSON": other.to_string() }),
    }
}
