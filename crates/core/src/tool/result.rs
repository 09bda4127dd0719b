mod media;
mod reading;

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{ErrorCode, JsonObject, ToolFailure, ToolOutput};
pub use media::{Media, ResultPart};
pub(crate) use reading::extract_reading;

/// The result of a tool call.
///
/// `result` is for the model: text, or any JSON value. `data` and `metadata` are for programs. A
/// failed result has `error` and `error_code`, and may still have a `result`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolResult {
    /// The ID of the call.
    pub tool_call_id: String,
    /// The tool name in the call.
    pub tool_name: String,
    /// Whether the call succeeded.
    pub success: bool,
    /// The output for the model.
    #[serde(default)]
    pub result: Value,
    /// The output for programs, if it differs from `result`.
    #[serde(default)]
    pub data: Option<Value>,
    /// Why the call failed, as a message; `None` for a successful call.
    #[serde(default)]
    pub error: Option<String>,
    /// Why the call failed, as a code; `None` for a successful call.
    #[serde(default)]
    pub error_code: Option<ErrorCode>,
    /// Information about the run; after a run, always contains `execution_time`, in seconds.
    #[serde(default)]
    pub metadata: JsonObject,
}

impl ToolResult {
    /// Creates a successful result without data or metadata.
    #[must_use]
    pub fn success(call_id: impl Into<String>, tool: impl Into<String>, result: Value) -> Self {
        Self {
            tool_call_id: call_id.into(),
            tool_name: tool.into(),
            success: true,
            result,
            data: None,
            error: None,
            error_code: None,
            metadata: JsonObject::new(),
        }
    }

    /// Creates a failed result without output.
    #[must_use]
    pub fn failure(
        tool_call_id: impl Into<String>,
        tool_name: impl Into<String>,
        code: ErrorCode,
        error: impl Into<String>,
    ) -> Self {
        Self {
            success: false,
            error: Some(error.into()),
            error_code: Some(code),
            ..Self::success(tool_call_id, tool_name, Value::Null)
        }
    }

    /// Returns what the model reads of the result. For an MCP result with only text blocks, returns
    /// their text, joined by newlines. For an MCP result with other blocks, returns the text of all
    /// blocks, with a marker such as `[image image/png, 8 bytes]` in place of encoded data. For an
    /// MCP result without blocks, returns its structured content. Returns any other result
    /// unchanged, except that markers replace encoded data. Returns `None` if a failed result
    /// contains nothing beyond the error message.
    ///
    /// ```
    /// use pillion_core::tool::ToolResult;
    /// use serde_json::json;
    /// let result = json!({"content": [{"type": "text", "text": "15"}]});
    /// let result = ToolResult::success("1", "roll", result);
    /// assert_eq!(*result.reading().unwrap(), "15");
    /// ```
    #[must_use]
    pub fn reading(&self) -> Option<Cow<'_, Value>> {
        let reading = extract_reading(&self.result);
        let repeats_error = match reading.as_str() {
            Some(text) => text.is_empty() || self.error.as_deref() == Some(text),
            None => reading.is_null(),
        };
        (self.success || !repeats_error).then_some(reading)
    }

    /// Returns the text for the model: what the model [reads](Self::reading) of the result, or
    /// `Error: ` and the error message. [`to_message_format`](Self::to_message_format) returns the
    /// whole message instead.
    ///
    /// ```
    /// use pillion_core::tool::{ErrorCode, ToolResult};
    /// let failed = ToolResult::failure("1", "t", ErrorCode::InternalError, "boom");
    /// assert_eq!(failed.to_message(), "Error: boom");
    /// ```
    #[must_use]
    pub fn to_message(&self) -> String {
        self.with_note(self.text())
    }

    /// Returns the text of the result like [`to_message`](Self::to_message), but without the
    /// [note](Self::note) about changed arguments.
    pub(crate) fn text(&self) -> String {
        if self.success {
            value_to_text(&extract_reading(&self.result))
        } else {
            format!("Error: {}", self.error_text())
        }
    }

    /// Converts the result of application code to the outcome of its tool.
    ///
    /// # Errors
    /// The result is not a success.
    pub fn into_output(self) -> Result<ToolOutput, ToolFailure> {
        if self.success {
            return Ok(ToolOutput {
                result: self.result,
                data: self.data,
                metadata: self.metadata,
                response: None,
            });
        }
        let code = self.error_code.unwrap_or(ErrorCode::InternalError);
        let message = self.error.unwrap_or_else(|| "The tool failed".to_owned());
        let mut failure = ToolFailure::new(code, message).with_result(self.result);
        *failure.metadata = self.metadata;
        Err(failure)
    }

    /// The metadata key of the arguments that an approver set in place of the call's own.
    pub const APPROVED_ARGUMENTS: &str = "approved_arguments";

    /// The metadata key of the repaired arguments with which the call ran, if a model's own
    /// arguments had to be repaired
    /// ([`CallContext::is_by_model`](super::CallContext::is_by_model)).
    pub const REPAIRED_ARGUMENTS: &str = "repaired_arguments";

    /// Returns the note that tells the model with which arguments the call ran; `None` unless an
    /// approver changed the arguments. [`to_message`](Self::to_message) and
    /// [`content`](Self::content) end with this note.
    #[must_use]
    pub fn note(&self) -> Option<String> {
        let arguments = self.metadata.get(Self::APPROVED_ARGUMENTS)?;
        Some(format!(
            "Note: the person who approved this call changed its arguments. The call ran with: \
             {arguments}"
        ))
    }

    fn with_note(&self, text: String) -> String {
        match self.note() {
            Some(note) => format!("{text}\n\n{note}"),
            None => text,
        }
    }

    /// Returns the message of role `tool`: `{"role", "tool_call_id", "content"}`. `content` is what
    /// the model [reads](Self::reading): a string as it is, other values as JSON. For a failure
    /// whose result contains nothing beyond the error message, `content` is `{"error": "..."}`.
    #[must_use]
    pub fn to_message_format(&self) -> Value {
        json!({
            "role": "tool",
            "tool_call_id": self.tool_call_id,
            "content": self.content(),
        })
    }

    /// Returns the content of a tool message: see [`to_message_format`](Self::to_message_format).
    #[must_use]
    pub fn content(&self) -> String {
        self.with_note(match self.reading() {
            Some(reading) => value_to_text(&reading),
            None => json!({ "error": self.error_text() }).to_string(),
        })
    }

    /// Returns the parts of a successful MCP result that contains more than text; `None` for any
    /// other result.
    #[must_use]
    pub fn parts(&self) -> Option<Vec<ResultPart<'_>>> {
        reading::parse_parts(&self.result).filter(|_| self.success)
    }

    /// Returns the error message, or a default message if there is none.
    #[must_use]
    pub fn error_text(&self) -> &str {
        self.error.as_deref().unwrap_or("unknown error")
    }
}

fn value_to_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        value => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a8_both_message_forms() {
        let text = ToolResult::success("1", "t", json!("4"));
        assert_eq!(text.to_message(), "4");
        let message = json!({"role": "tool", "tool_call_id": "1", "content": "4"});
        assert_eq!(text.to_message_format(), message);
        let mixed = ToolResult::success("1", "t", json!({"total": 15}));
        assert_eq!(mixed.to_message_format()["content"], "{\"total\":15}");
        let failed = ToolResult::failure("1", "t", ErrorCode::InternalError, "boom");
        assert_eq!(failed.to_message(), "Error: boom");
        assert_eq!(
            failed.to_message_format()["content"],
            json!("{\"error\":\"boom\"}")
        );
    }

    #[test]
    fn e10_a_model_reads_the_text_of_an_mcp_result() {
        let says = |text: &str| json!({"content": [{"type": "text", "text": text}]});
        let result = ToolResult::success("1", "t", says("15"));
        assert_eq!(result.to_message(), "15");
        assert_eq!(result.content(), "15");

        let structured = json!({"content": [], "structuredContent": {"total": 15}});
        let result = ToolResult::success("1", "t", structured);
        assert_eq!(result.to_message(), "{\"total\":15}");

        let failure = |result: Value| ToolResult {
            result,
            ..ToolResult::failure("1", "t", ErrorCode::InternalError, "no dice")
        };
        for says_no_more in [says("no dice"), json!({"content": []}), json!("no dice")] {
            let failed = failure(says_no_more);
            assert_eq!(failed.to_message(), "Error: no dice");
            assert_eq!(failed.content(), "{\"error\":\"no dice\"}");
        }
        let says_more = failure(says("no dice, but cards"));
        assert_eq!(says_more.content(), "no dice, but cards");
    }

    #[test]
    fn a7_serializes_every_field() {
        let value = serde_json::to_value(ToolResult::success("1", "t", json!(2))).unwrap();
        for key in [
            "tool_call_id",
            "tool_name",
            "success",
            "result",
            "data",
            "error",
            "error_code",
            "metadata",
        ] {
            assert!(value.get(key).is_some(), "{key}");
        }
    }
}
