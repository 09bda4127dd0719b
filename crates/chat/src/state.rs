mod format;
mod round;

use pillion_core::tool::{ToolCall, ToolResult};
use pillion_providers::Provider;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::chat_loop::size::MeasuredRequest;
use crate::chat_loop::trim;
use crate::{FinalResponse, ProviderConversation, Usage};
use format::StateFormat;
pub(crate) use round::{CallProgress, PermittedCalls, Round, RoundCall, RoundResults};

/// The state of a chat: everything that is needed to continue the chat, also in another process.
/// The state is plain data that serde serializes to JSON. The chat loop trusts the state, so a
/// program must store it where users cannot change it.
///
/// [`ChatLoop::begin`](crate::ChatLoop::begin) creates a state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChatState {
    /// The version of the serialized format; other versions are rejected.
    format: StateFormat,
    #[serde(with = "format::provider")]
    pub(crate) provider: Provider,
    #[serde(flatten)]
    pub(crate) conversation: ProviderConversation,
    /// The number of tool rounds since the user's last message. Responses with calls and responses
    /// that the provider paused count as rounds.
    pub(crate) rounds: usize,
    pub(crate) tool_calls: usize,
    /// The number of requests of the chat to which the model has responded.
    pub(crate) requests: usize,
    pub(crate) usage: Usage,
    /// The total of the reported usage, plus estimates for responses without a reported usage and
    /// for failed requests that may have been billed.
    pub(crate) spent_tokens: u64,
    /// The index, in the messages, of the first message of the last round of calls.
    #[serde(rename = "round_at")]
    pub(crate) round_start: usize,
    /// The calls of the last response, until all have a result.
    pub(crate) round: Option<Round>,
    /// The decisions on calls that the provider runs itself, if any call was approved. Removed when
    /// the provider responds.
    #[serde(default, rename = "permitted", skip_serializing_if = "Option::is_none")]
    pub(crate) permitted_calls: Option<PermittedCalls>,
    /// The estimated size of a request that the provider rejected as too long, in tokens.
    #[serde(
        default,
        rename = "refused_tokens",
        skip_serializing_if = "Option::is_none"
    )]
    pub(crate) rejected_tokens: Option<u64>,
    /// The length and the token count of the last request whose usage the provider reported.
    #[serde(default, rename = "measured", skip_serializing_if = "Option::is_none")]
    pub(crate) measured_request: Option<MeasuredRequest>,
    #[serde(rename = "answer")]
    pub(crate) final_response: Option<FinalResponse>,
}

/// A call that waits for approval.
#[derive(Debug, Clone, PartialEq)]
pub struct WaitingCall {
    /// The call as the model made it.
    pub call: ToolCall,
    /// The ID of the approval that the call waits for, if the runner named one.
    pub approval_id: Option<String>,
    /// The runner's result; the metadata contains the arguments that the call would run with.
    pub result: ToolResult,
}

impl ChatState {
    pub(crate) fn new(provider: Provider, conversation: ProviderConversation) -> Self {
        Self {
            format: StateFormat,
            provider,
            round_start: trim::last_round_start(provider, &conversation.messages),
            conversation,
            rounds: 0,
            tool_calls: 0,
            requests: 0,
            usage: Usage::default(),
            spent_tokens: 0,
            round: None,
            permitted_calls: None,
            rejected_tokens: None,
            measured_request: None,
            final_response: None,
        }
    }

    /// Returns the provider whose format the messages have.
    #[must_use]
    pub fn provider(&self) -> Provider {
        self.provider
    }

    /// Returns the system prompt outside the messages; see [`ProviderConversation::system`].
    #[must_use]
    pub fn system(&self) -> Option<&Value> {
        self.conversation.system.as_ref()
    }

    /// Returns the messages in the provider's format, oldest first. The results of a round are
    /// added when all calls of the round have a result.
    #[must_use]
    pub fn messages(&self) -> &[Value] {
        &self.conversation.messages
    }

    /// Returns the number of tool rounds since the user's last message. Responses with calls and
    /// responses that the provider paused count as rounds.
    #[must_use]
    pub fn rounds(&self) -> usize {
        self.rounds
    }

    /// Returns the number of calls since the last message of the user.
    #[must_use]
    pub fn tool_calls(&self) -> usize {
        self.tool_calls
    }

    /// Returns the number of requests of the chat to which the model has responded.
    #[must_use]
    pub fn requests(&self) -> usize {
        self.requests
    }

    /// Returns the token usage of all responses.
    #[must_use]
    pub fn usage(&self) -> Usage {
        self.usage
    }

    /// Returns the calls that wait for approval, in the model's order.
    #[must_use]
    pub fn waiting_calls(&self) -> Vec<WaitingCall> {
        self.round
            .as_ref()
            .map(Round::waiting_calls)
            .unwrap_or_default()
    }

    /// Returns the final response, if there is one.
    #[must_use]
    pub fn final_response(&self) -> Option<&FinalResponse> {
        self.final_response.as_ref()
    }

    /// Sets the result of a waiting call that ran elsewhere, for example in the application. The
    /// next run continues with the result. Returns `false` if no waiting call has the call ID of
    /// the result.
    ///
    /// A call waits if the runner returned
    /// [`ApprovalRequired`](pillion_core::tool::ErrorCode::ApprovalRequired).
    pub fn resolve_waiting(&mut self, result: ToolResult) -> bool {
        let calls = self.round.iter_mut().flat_map(|round| &mut round.0);
        let mut waiting_calls =
            calls.filter(|call| matches!(call.progress, CallProgress::Waiting(_)));
        let Some(call) = waiting_calls.find(|call| call.call.id == result.tool_call_id) else {
            return false;
        };
        call.progress = CallProgress::Ended(Box::new(round::stringify_deep_values(result)));
        true
    }
}
