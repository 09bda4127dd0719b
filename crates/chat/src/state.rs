mod format;
mod round;

use pillion_core::provider::Provider;
use pillion_core::tool::{ToolCall, ToolResult};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::chat_loop::trim;
use crate::{ChatAnswer, Conversation, Usage};
use format::Format;
pub(crate) use round::{Permitted, Progress, Results, Round, RoundCall};

/// A chat between two steps: all that it takes to go on, also in another process. It is plain
/// data, written as JSON by serde; what it holds is trusted, so a program keeps it where its users cannot
/// change it.
///
/// [`ChatLoop::begin`](crate::ChatLoop::begin) makes one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChatState {
    /// The version of this form; another one is not read.
    format: Format,
    #[serde(with = "format::provider")]
    pub(crate) provider: Provider,
    #[serde(flatten)]
    pub(crate) conversation: Conversation,
    /// Since the last message of the user.
    pub(crate) rounds: usize,
    pub(crate) tool_calls: usize,
    /// Since the first one.
    pub(crate) requests: usize,
    pub(crate) usage: Usage,
    /// As `usage.total()`, estimated where the provider does not say, and with what answers may have cost
    /// that did not come to their end.
    pub(crate) spent_tokens: u64,
    /// Where the messages of the last round with calls begin.
    pub(crate) round_at: usize,
    /// The calls of the last answer, until all have a result.
    pub(crate) round: Option<Round>,
    /// What the provider was allowed to call, until it answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) permitted: Option<Permitted>,
    /// What the provider has refused as too long, in estimated tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) refused_tokens: Option<u64>,
    /// What the provider counted for a request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) measured: Option<Measured>,
    pub(crate) answer: Option<ChatAnswer>,
}

/// The length of a request, and the tokens that the provider counted in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Measured {
    pub(crate) bytes: u64,
    pub(crate) tokens: u64,
}

/// A call that waits for somebody's approval (requirement G3).
#[derive(Debug, Clone, PartialEq)]
pub struct WaitingCall {
    /// The call as the model made it.
    pub call: ToolCall,
    /// The approval that it waits for, where the runner names one.
    pub approval_id: Option<String>,
    /// What the runner said of it, with the arguments that it would run with in its metadata.
    pub result: ToolResult,
}

impl ChatState {
    pub(crate) fn new(provider: Provider, conversation: Conversation) -> Self {
        Self {
            format: Format,
            provider,
            round_at: trim::last_round(provider, &conversation.messages),
            conversation,
            rounds: 0,
            tool_calls: 0,
            requests: 0,
            usage: Usage::default(),
            spent_tokens: 0,
            round: None,
            permitted: None,
            refused_tokens: None,
            measured: None,
            answer: None,
        }
    }

    /// In whose shapes the messages are.
    #[must_use]
    pub fn provider(&self) -> Provider {
        self.provider
    }

    /// What stands beside the messages: see [`Conversation::system`].
    #[must_use]
    pub fn system(&self) -> Option<&Value> {
        self.conversation.system.as_ref()
    }

    /// The messages in the provider's shapes, oldest first. The results of a round stand there
    /// when all its calls have one.
    #[must_use]
    pub fn messages(&self) -> &[Value] {
        &self.conversation.messages
    }

    /// How many answers with calls there were since the last message of the user.
    #[must_use]
    pub fn rounds(&self) -> usize {
        self.rounds
    }

    /// How many calls there were since the last message of the user.
    #[must_use]
    pub fn tool_calls(&self) -> usize {
        self.tool_calls
    }

    /// How many answers the model has given.
    #[must_use]
    pub fn requests(&self) -> usize {
        self.requests
    }

    /// What they cost.
    #[must_use]
    pub fn usage(&self) -> Usage {
        self.usage
    }

    /// The calls that wait for an approval, in the order in which the model made them.
    #[must_use]
    pub fn waiting(&self) -> Vec<WaitingCall> {
        self.round.as_ref().map(Round::waiting).unwrap_or_default()
    }

    /// The answer, once there is one.
    #[must_use]
    pub fn answer(&self) -> Option<&ChatAnswer> {
        self.answer.as_ref()
    }

    /// Gives a call that waits the result that somebody else has for it, such as the application whose
    /// own tool it is: a runner lets such a call wait by answering
    /// [`ApprovalRequired`](pillion_core::tool::ErrorCode::ApprovalRequired). The next run goes on
    /// with the result. False where no call of that id waits.
    pub fn answer_waiting(&mut self, result: ToolResult) -> bool {
        let calls = self.round.iter_mut().flat_map(|round| &mut round.0);
        let mut waiting = calls.filter(|call| matches!(call.progress, Progress::Waiting(_)));
        let Some(call) = waiting.find(|call| call.call.id == result.tool_call_id) else {
            return false;
        };
        call.progress = Progress::Ended(Box::new(round::readable(result)));
        true
    }
}
