//! Converts the events of a chat to the JSON that the REST API and PHP use.

use pillion_core::json_values;
use pillion_core::tool::ToolResult;
use serde_json::{Value, json};

use crate::depth::is_too_deep;
use crate::{ChatEvent, Delta, EndedCall, LimitReached, WaitingCall};

impl ChatEvent {
    /// Returns the event's name and data: `delta`, `thought` and `status` with a `text`,
    /// `tool_started`, `tool_finished`, `tool_waiting` or `usage`. Returns `None` for pieces of
    /// calls, which are of no use before the call starts, and for the end of the chat, which the
    /// caller reports with more details.
    #[must_use]
    pub fn into_json(self) -> Option<(&'static str, Value)> {
        Some(match self {
            Self::Delta(Delta::Text(text)) => ("delta", json!({"text": text})),
            Self::Delta(Delta::Thought(text)) => ("thought", json!({"text": text})),
            Self::Status(text) => ("status", json!({"text": text})),
            Self::ToolStarted(call) => (
                "tool_started",
                json!({
                    "id": call.id,
                    "name": call.name,
                    "arguments": parse_text_arguments(call.arguments),
                }),
            ),
            Self::ToolFinished(EndedCall { result, .. }) => (
                "tool_finished",
                json!({
                    "id": result.tool_call_id,
                    "name": result.tool_name,
                    "success": result.success,
                    "content": result.content(),
                    "error_code": result.error_code,
                }),
            ),
            Self::ToolWaiting(waiting_call) => {
                let mut data = json!({
                    "call": waiting_call.call.id,
                    "tool": waiting_call.call.name,
                    "arguments": waiting_call.arguments(),
                });
                if let Some(id) = waiting_call.approval_id {
                    data["id"] = id.into();
                }
                ("tool_waiting", data)
            }
            Self::Usage {
                request,
                usage,
                total,
            } => (
                "usage",
                json!({
                    "request": request,
                    "input_tokens": usage.input_tokens,
                    "output_tokens": usage.output_tokens,
                    "total_input_tokens": total.input_tokens,
                    "total_output_tokens": total.output_tokens,
                }),
            ),
            Self::Delta(Delta::ToolCall { .. } | Delta::Native(_)) | Self::Done(_) => return None,
        })
    }
}

impl EndedCall {
    /// Returns the arguments as the model wrote them, or the repaired arguments if Pillion repaired
    /// them.
    #[must_use]
    pub fn arguments(&self) -> Value {
        let repaired_arguments = self.result.metadata.get(ToolResult::REPAIRED_ARGUMENTS);
        repaired_arguments
            .cloned()
            .unwrap_or_else(|| parse_text_arguments(self.call.arguments.clone()))
    }
}

impl WaitingCall {
    /// Returns the arguments with which the waiting call runs if it is approved.
    #[must_use]
    pub fn arguments(&self) -> Value {
        let arguments = self.result.metadata.get("arguments");
        parse_text_arguments(arguments.unwrap_or(&self.call.arguments).clone())
    }
}

impl LimitReached {
    /// Returns the name of the limit in JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::ToolCalls => "tool_calls",
            Self::ToolRounds => "tool_rounds",
        }
    }
}

/// Parses arguments that are JSON text, if the text is an object or an array that is not nested too
/// deeply. Missing arguments become an empty object.
fn parse_text_arguments(arguments: Value) -> Value {
    match arguments {
        Value::Null => json!({}),
        Value::String(text) => match json_values::from_str(&text) {
            Ok(value @ (Value::Object(_) | Value::Array(_))) if !is_too_deep(&value) => value,
            _ => Value::String(text),
        },
        arguments => arguments,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a6_arguments_nested_too_deep_stay_text() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        let shown = parse_text_arguments(Value::String(nested(100)));
        assert!(shown.is_array(), "{shown}");
        let shown = parse_text_arguments(Value::String(nested(101)));
        assert_eq!(shown, Value::String(nested(101)));
    }
}
