use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::ExecuteResponse;

/// Request body of `POST /api/v1/tools/batch-execute`.
///
/// ```
/// use pillion_wire::{BatchMode, BatchRequest};
/// let request: BatchRequest = serde_json::from_str(
///     r#"{"calls": [{"id": "a", "name": "get_time", "arguments": {}}]}"#,
/// )?;
/// assert_eq!(request.mode, BatchMode::Parallel);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct BatchRequest {
    /// The calls.
    pub calls: Vec<BatchCall>,
    /// The mode in which the calls run.
    #[serde(default)]
    pub mode: BatchMode,
}

/// Maximum length of an ID that a client chooses, in bytes. The length is limited, because IDs are
/// repeated in logs, events and other messages.
pub const MAX_ID_BYTES: usize = 256;

/// One call of a batch. Unknown fields, such as the `type` and `index` of a model's tool call, are
/// ignored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct BatchCall {
    /// The caller's ID for the call, of at most 256 bytes; the call's result has the same ID.
    pub id: String,
    /// The tool's name or alias.
    pub name: String,
    /// The arguments: an object, or a string of JSON as models write it.
    #[serde(default)]
    pub arguments: Value,
}

/// The mode in which the calls of a batch run. In both modes, the results keep the order of the
/// calls, and a failed call does not affect the other calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum BatchMode {
    /// Runs the calls concurrently, up to the limits of the executor.
    #[default]
    Parallel,
    /// Runs one call after the other.
    Sequential,
}

/// Response body of `POST /api/v1/tools/batch-execute`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct BatchResponse {
    /// Always true, because each result has its own `success`.
    pub success: bool,
    /// One result per call, in the order of the calls.
    pub results: Vec<BatchResult>,
    /// The number of results.
    pub total: usize,
}

/// The result of one call of a batch: the call's ID, and the response that the call would get
/// outside a batch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct BatchResult {
    /// The ID from the request's call.
    pub id: String,
    /// The response to the call.
    #[serde(flatten)]
    pub response: ExecuteResponse,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Failure;

    #[test]
    fn a_batch_result_is_the_single_response_plus_its_id() {
        let result = BatchResult {
            id: "a".to_owned(),
            response: ExecuteResponse::NotFound(Failure::new("not_found", "no").for_tool("x")),
        };
        let text = serde_json::to_string(&result).unwrap();
        assert_eq!(
            text,
            r#"{"id":"a","success":false,"tool":"x","error":"no","error_code":"not_found"}"#
        );
        assert_eq!(serde_json::from_str::<BatchResult>(&text).unwrap(), result);
    }

    #[test]
    fn unknown_keys_of_the_request_are_rejected() {
        let request = serde_json::from_str::<BatchRequest>(r#"{"calls": [], "parallel": true}"#);
        assert!(request.unwrap_err().to_string().contains("parallel"));
    }
}
