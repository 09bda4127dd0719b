use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Failure, JsonObject};

/// Response body of `POST /api/v1/tools/execute/{tool_name}`. Both variants have HTTP status 200.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum ExecuteResponse {
    /// The tool exists, and its call has an outcome. `result.success` says whether the call
    /// succeeded.
    Executed(Execution),
    /// The tool does not exist.
    NotFound(Failure),
}

impl ExecuteResponse {
    /// Returns whether the tool exists and the call succeeded.
    #[must_use]
    pub fn is_success(&self) -> bool {
        match self {
            Self::Executed(execution) => execution.result.success,
            Self::NotFound(_) => false,
        }
    }
}

/// The response to a call of an existing tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Execution {
    /// Always true, even if `result.success` is false.
    pub success: bool,
    /// The tool's name as in the request.
    pub tool: String,
    /// The outcome of the call.
    pub result: ToolOutcome,
}

/// The outcome of a tool call.
///
/// If a tool returns both machine-readable data and a result for the model, `data` has the data and
/// `result` has the result for the model. If a tool returns one value, `data` has the value and
/// `result` is absent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ToolOutcome {
    /// Whether the call succeeded.
    pub success: bool,
    /// The tool's data, or else the tool's result. A failed call may also have data.
    #[serde(default)]
    pub data: Value,
    /// The error message of a failed call.
    #[serde(default)]
    pub error: Option<String>,
    /// The error code of a failed call, one of the values of `Failure.error_code`.
    #[serde(default)]
    pub error_code: Option<String>,
    /// The result for the model; only present if the tool also returned `data`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Value>,
    /// The outcome as text for the model: the result, or `Error: ` and the error message. If an MCP
    /// result has only text blocks, this is their text. If an MCP result has no blocks, this is the
    /// structured content.
    #[serde(default)]
    pub text: String,
    /// Metadata of the call, such as `execution_time` in seconds.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub metadata: JsonObject,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn i2_the_two_envelopes_are_distinguished() {
        let ran = json!({"success": true, "tool": "t", "result": {"success": false, "data": null, "error": "boom"}});
        let response: ExecuteResponse = serde_json::from_value(ran).unwrap();
        assert!(
            matches!(&response, ExecuteResponse::Executed(execution) if !execution.result.success)
        );
        assert!(!response.is_success());
        let not_found = json!({"success": false, "tool": "x", "error": "Tool 'x' not found", "error_code": "not_found"});
        let response: ExecuteResponse = serde_json::from_value(not_found).unwrap();
        assert!(
            matches!(&response, ExecuteResponse::NotFound(failure) if failure.error_code == "not_found")
        );
    }

    #[test]
    fn i1_mandatory_keys_are_always_written() {
        let outcome = ToolOutcome {
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
