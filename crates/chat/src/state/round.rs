use pillion_core::tool::{ErrorCode, ToolCall, ToolResult};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::WaitingCall;
use crate::depth;

/// The calls of one answer, in its order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Round(pub(crate) Vec<RoundCall>);

/// One of them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct RoundCall {
    pub(crate) call: ToolCall,
    /// Whether the provider makes the call by itself, and only wants to be allowed.
    #[serde(default, skip_serializing_if = "is_false")]
    pub(crate) is_native: bool,
    pub(crate) progress: Progress,
}

/// How far a call has come.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Progress {
    /// It has not been begun.
    Due,
    /// It was begun. Where that stands in a state that is taken up again, nobody knows its end.
    Begun,
    /// It waits for an approval; what the runner said.
    Waiting(Box<ToolResult>),
    /// It has its result.
    Ended(Box<ToolResult>),
}

impl Round {
    pub(crate) fn waiting(&self) -> Vec<WaitingCall> {
        self.0.iter().filter_map(RoundCall::waiting).collect()
    }

    /// The results, if all are there.
    pub(crate) fn results(&self) -> Option<Results> {
        let mut results = Results::default();
        for call in &self.0 {
            let Progress::Ended(result) = &call.progress else {
                return None;
            };
            let of_its_kind = match call.is_native {
                true => &mut results.permits,
                false => &mut results.calls,
            };
            of_its_kind.push(ToolResult::clone(result));
        }
        Some(results)
    }

    /// The calls that the provider makes by itself.
    pub(crate) fn native_calls(&self) -> Vec<ToolCall> {
        let calls = self.0.iter().filter(|call| call.is_native);
        calls.map(|call| call.call.clone()).collect()
    }
}

/// Calls that the provider was allowed to make, until an answer says what came of them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Permitted {
    /// Where their permits begin in the conversation.
    pub(crate) at: usize,
    /// The calls, in the order of the permits.
    pub(crate) calls: Vec<ToolCall>,
    /// What came of each question, in the order of the permits.
    pub(crate) permits: Vec<ToolResult>,
    /// Whether a request may have gone out with them.
    pub(crate) is_sent: bool,
}

impl Permitted {
    /// None where nothing is allowed.
    pub(crate) fn of(at: usize, calls: Vec<ToolCall>, permits: &[ToolResult]) -> Option<Self> {
        permits.iter().any(|permit| permit.success).then(|| Self {
            at,
            calls,
            permits: permits.to_vec(),
            is_sent: false,
        })
    }
}

/// What came of the calls of a round, each in their order.
#[derive(Debug, Default)]
pub(crate) struct Results {
    /// Of those that were run.
    pub(crate) calls: Vec<ToolResult>,
    /// Of those that the provider wanted to be allowed.
    pub(crate) permits: Vec<ToolResult>,
}

/// The same with what is nested too deep as the text of its JSON, which is what the model reads.
pub(super) fn readable(mut result: ToolResult) -> ToolResult {
    let parts = std::iter::once(&mut result.result).chain(result.metadata.values_mut());
    for part in parts.filter(|part| depth::is_too_deep(part)) {
        *part = Value::String(part.to_string());
    }
    result
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "what serde calls")]
fn is_false(value: &bool) -> bool {
    !value
}

impl RoundCall {
    /// What it waits for.
    pub(crate) fn waiting(&self) -> Option<WaitingCall> {
        let Progress::Waiting(result) = &self.progress else {
            return None;
        };
        let approval_id = result.metadata.get("approval_id");
        Some(WaitingCall {
            call: self.call.clone(),
            approval_id: approval_id.and_then(|id| id.as_str().map(str::to_owned)),
            result: ToolResult::clone(result),
        })
    }

    /// Notes what came of it.
    pub(crate) fn answered(&mut self, result: ToolResult) {
        let result = Box::new(readable(result));
        self.progress = match result.error_code {
            Some(ErrorCode::ApprovalRequired) => Progress::Waiting(result),
            _ => Progress::Ended(result),
        };
    }
}
