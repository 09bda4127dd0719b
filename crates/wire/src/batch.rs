use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Answer;

/// The body of `POST /api/v1/tools/batch-execute`.
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
    /// How to run them.
    #[serde(default)]
    pub mode: BatchMode,
}

/// One call of a batch. Fields that this does not name, such as the `type` and `index` of
/// a model's tool call, are ignored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct BatchCall {
    /// The caller's id of the call, which the result carries back.
    pub id: String,
    /// The tool's name or an alias of it.
    pub name: String,
    /// The arguments: an object, or a string of JSON as models give it.
    #[serde(default)]
    pub arguments: Value,
}

/// How the calls of a batch run. Either way the results keep the order of the calls and no
/// failure touches another call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum BatchMode {
    /// Side by side, as many at once as the executor allows.
    #[default]
    Parallel,
    /// One after the other.
    Sequential,
}

/// The answer of `POST /api/v1/tools/batch-execute`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct BatchAnswer {
    /// Always true: each result says for itself whether its call worked.
    pub success: bool,
    /// One result a call, in the order of the calls.
    pub results: Vec<BatchResult>,
    /// How many results there are.
    pub total: usize,
}

/// The result of one call of a batch: the answer that the call alone would have had, and
/// the call's id.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct BatchResult {
    /// The id that the call came with.
    pub id: String,
    /// The answer.
    #[serde(flatten)]
    pub answer: Answer,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Failure;

    #[test]
    fn a_result_is_the_single_answer_plus_its_id() {
        let result = BatchResult {
            id: "a".to_owned(),
            answer: Answer::Refused(Failure::new("not_found", "no").for_tool("x")),
        };
        let text = serde_json::to_string(&result).unwrap();
        assert_eq!(
            text,
            r#"{"id":"a","success":false,"tool":"x","error":"no","error_code":"not_found"}"#
        );
        assert_eq!(serde_json::from_str::<BatchResult>(&text).unwrap(), result);
    }

    #[test]
    fn unknown_keys_of_the_request_are_refused() {
        let request = serde_json::from_str::<BatchRequest>(r#"{"calls": [], "parallel": true}"#);
        assert!(request.unwrap_err().to_string().contains("parallel"));
    }
}
