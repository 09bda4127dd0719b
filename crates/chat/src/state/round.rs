use pillion_core::tool::{ErrorCode, ToolCall, ToolResult};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::WaitingCall;
use crate::depth;

/// The calls of one response, in order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Round(pub(crate) Vec<RoundCall>);

/// A call of a round, with its progress.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct RoundCall {
    pub(crate) call: ToolCall,
    /// Whether the provider runs the call itself and only requests permission.
    #[serde(default, skip_serializing_if = "is_false")]
    pub(crate) is_native: bool,
    pub(crate) progress: CallProgress,
}

/// The progress of a call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum CallProgress {
    /// The call has not started.
    Due,
    /// The call has started. In a state that was saved and loaded, its outcome is unknown.
    Begun,
    /// The call waits for approval. Contains the runner's result, which names the approval.
    Waiting(Box<ToolResult>),
    /// The call has ended, with this result.
    Ended(Box<ToolResult>),
}

impl Round {
    pub(crate) fn waiting_calls(&self) -> Vec<WaitingCall> {
        self.0
            .iter()
            .filter_map(RoundCall::to_waiting_call)
            .collect()
    }

    /// Returns the results of the round, if all calls have a result.
    pub(crate) fn results(&self) -> Option<RoundResults> {
        let mut results = RoundResults::default();
        for call in &self.0 {
            let CallProgress::Ended(result) = &call.progress else {
                return None;
            };
            let results_of_kind = if call.is_native {
                &mut results.permits
            } else {
                &mut results.call_results
            };
            results_of_kind.push(ToolResult::clone(result));
        }
        Some(results)
    }

    /// Returns the calls that the provider runs itself if Pillion approves them.
    pub(crate) fn native_calls(&self) -> Vec<ToolCall> {
        let calls = self.0.iter().filter(|call| call.is_native);
        calls.map(|call| call.call.clone()).collect()
    }
}

/// The decisions on the calls of one round that the provider runs itself. At least one call is
/// approved.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct PermittedCalls {
    /// The index of the first decision in the messages of the conversation.
    #[serde(rename = "at")]
    pub(crate) first_permit_index: usize,
    /// The calls, in the order of `permits`.
    pub(crate) calls: Vec<ToolCall>,
    /// The decisions, in the order of the provider's requests: a successful result approves its
    /// call, and a failed result denies its call.
    pub(crate) permits: Vec<ToolResult>,
    /// Whether a request with the decisions may have been sent.
    pub(crate) is_sent: bool,
}

impl PermittedCalls {
    /// Creates the record of a round's decisions. Returns `None` if no call is approved.
    pub(crate) fn for_round(
        first_permit_index: usize,
        calls: Vec<ToolCall>,
        permits: &[ToolResult],
    ) -> Option<Self> {
        permits.iter().any(|permit| permit.success).then(|| Self {
            first_permit_index,
            calls,
            permits: permits.to_vec(),
            is_sent: false,
        })
    }
}

/// The results of a round, by kind of call, each in order.
#[derive(Debug, Default)]
pub(crate) struct RoundResults {
    /// The results of the calls that the runner ran.
    pub(crate) call_results: Vec<ToolResult>,
    /// The decisions on the calls that the provider runs itself: a successful result approves its
    /// call, and a failed result denies its call.
    pub(crate) permits: Vec<ToolResult>,
}

/// Returns the result, with values that are nested too deeply replaced by their JSON text. The
/// model reads the result as text, with or without this replacement.
pub(super) fn stringify_deep_values(mut result: ToolResult) -> ToolResult {
    let parts = std::iter::once(&mut result.result).chain(result.metadata.values_mut());
    for part in parts.filter(|part| depth::is_too_deep(part)) {
        *part = Value::String(part.to_string());
    }
    result
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_false(value: &bool) -> bool {
    !value
}

impl RoundCall {
    /// Returns the waiting call with its approval, if the call waits.
    pub(crate) fn to_waiting_call(&self) -> Option<WaitingCall> {
        let CallProgress::Waiting(result) = &self.progress else {
            return None;
        };
        let approval_id = result.metadata.get("approval_id");
        Some(WaitingCall {
            call: self.call.clone(),
            approval_id: approval_id.and_then(|id| id.as_str().map(str::to_owned)),
            result: ToolResult::clone(result),
        })
    }

    /// Ends the call with a result, or makes the call wait if the result requires approval.
    pub(crate) fn record_result(&mut self, result: ToolResult) {
        let result = Box::new(stringify_deep_values(result));
        self.progress = match result.error_code {
            Some(ErrorCode::ApprovalRequired) => CallProgress::Waiting(result),
            _ => CallProgress::Ended(result),
        };
    }
}
