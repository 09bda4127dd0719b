use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The limits of a chat.
///
/// ```
/// use pillion_chat::ChatLimits;
/// let limits = ChatLimits { max_tool_rounds: 2, ..ChatLimits::default() };
/// assert_eq!(limits.max_tool_calls, 5);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChatLimits {
    /// Maximum number of tool calls per user message; after that, the model must respond with text.
    /// All calls of the response that reaches the limit still run. Default 5.
    pub max_tool_calls: usize,
    /// Maximum number of responses with tool calls per user message; after that, the model must
    /// respond with text. Default 5.
    pub max_tool_rounds: usize,
    /// Maximum number of calls that run from one response. The other calls get an error as their
    /// result. Default 32.
    pub max_calls_per_response: usize,
    /// Maximum number of input and output tokens of the whole chat. A request that could exceed the
    /// limit is not sent. The cost of a response that ended early, timed out or could not be read
    /// is estimated. `None`, the default, means no limit.
    pub max_total_tokens: Option<u64>,
    /// The size of the model's context, in tokens. The oldest tool results are omitted from a
    /// longer conversation. With `None`, the default, only the provider checks the length.
    pub context_tokens: Option<u64>,
    /// Timeout of one run. The time between two runs, for example while a call waits for approval,
    /// does not count. Default 5 minutes.
    pub timeout: Duration,
}

impl Default for ChatLimits {
    fn default() -> Self {
        Self {
            max_tool_calls: 5,
            max_tool_rounds: 5,
            max_calls_per_response: 32,
            max_total_tokens: None,
            context_tokens: None,
            timeout: Duration::from_secs(300),
        }
    }
}

/// The limit after which the model had to respond with text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum LimitReached {
    /// The chat has reached the maximum number of tool calls ([`ChatLimits::max_tool_calls`]).
    ToolCalls,
    /// The chat has reached the maximum number of tool rounds ([`ChatLimits::max_tool_rounds`]).
    ToolRounds,
}
