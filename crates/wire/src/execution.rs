use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Failure, JsonObject};

/// The answer of `POST /api/v1/tools/execute/{tool_name}`; both come with HTTP status 200
/// (requirement I2).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum Answer {
    /// The tool was found. Whether it worked is in `result.success`.
    Ran(Execution),
    /// There is no such tool.
    Refused(Failure),
}

impl Answer {
    /// Whether the tool was found and did what it was asked.
    #[must_use]
    pub fn is_success(&self) -> bool {
        match self {
            Self::Ran(execution) => execution.result.success,
            Self::Refused(_) => false,
        }
    }
}

/// A tool was found and its executor has answered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Execution {
    /// Always true, even where `result.success` is false.
    pub success: bool,
    /// The tool as the request named it.
    pub tool: String,
    /// What came of it.
    pub result: Outcome,
}

/// What came of one tool call.
///
/// Nothing of a tool's result is lost on the way: where a tool gives machine-readable data
/// beside what the model reads, `data` has the one and `result` the other; where it gives
/// one value, `data` has it and `result` is left out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Outcome {
    /// Whether the tool did what it was asked.
    pub success: bool,
    /// The tool's data, else its result. A failed call may have it too.
    #[serde(default)]
    pub data: Value,
    /// What went wrong, in words.
    #[serde(default)]
    pub error: Option<String>,
    /// What went wrong, from the fixed set of [`Failure::error_code`].
    #[serde(default)]
    pub error_code: Option<String>,
    /// What the model reads; only where the tool also gave `data`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Value>,
    /// The outcome as text for the model: the result, or `Error: ` and the error. Of an MCP
    /// result that is text and nothing else, that text, and of one without blocks its
    /// structured content.
    #[serde(default)]
    pub text: String,
    /// Facts about the run; `execution_time` is in seconds.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub metadata: JsonObject,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn i2_the_two_envelopes_are_told_apart() {
        let ran = json!({"success": true, "tool": "t", "result": {"success": false, "data": null, "error": "boom"}});
        let answer: Answer = serde_json::from_value(ran).unwrap();
        assert!(matches!(&answer, Answer::Ran(execution) if !execution.result.success));
        assert!(!answer.is_success());
        let refused = json!({"success": false, "tool": "x", "error": "Tool 'x' not found", "error_code": "not_found"});
        let answer: Answer = serde_json::from_value(refused).unwrap();
        assert!(matches!(&answer, Answer::Refused(failure) if failure.error_code == "not_found"));
    }

    #[test]
    fn i1_the_keys_of_the_seed_are_always_written() {
        let outcome = Outcome {
            success: true,
            data: Value::Null,
            error: None,
            error_code: None,
            result: None,
            text: String::new(),
            metadata: JsonObject::new(),
        };
        let value = serde_json::to_value(outcome).unwrap();
        assert_eq!(
            value,
            json!({"success": true, "data": null, "error": null, "error_code": null, "text": "", "metadata": {}})
        );
    }
}
