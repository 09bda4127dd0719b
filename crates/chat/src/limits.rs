use std::time::Duration;

use serde::{Deserialize, Serialize};

/// How far a chat goes by itself.
///
/// ```
/// use pillion_chat::ChatLimits;
/// let limits = ChatLimits { max_tool_rounds: 2, ..ChatLimits::default() };
/// assert_eq!(limits.max_tool_calls, 5);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChatLimits {
    /// After so many calls the model has to answer in words (requirement H4). The calls of the
    /// answer that reaches it still run. Default 5.
    pub max_tool_calls: usize,
    /// After so many answers with calls the model has to answer in words, if that is sooner.
    /// Default 5.
    pub max_tool_rounds: usize,
    /// So many calls of one answer run; the model is told of the rest that they did not.
    /// Default 32.
    pub max_calls_per_answer: usize,
    /// Tokens that may be read and written from the first message to the last answer. Nothing is
    /// sent that would go beyond it. What an answer may have cost that broke off, came too late or
    /// could not be read is estimated. None for no limit, which is the default.
    pub max_total_tokens: Option<u64>,
    /// How many tokens the model reads and writes in one turn at most. A longer conversation has
    /// the oldest results of tools left out. None leaves it to the provider to refuse, which is
    /// the default.
    pub context_tokens: Option<u64>,
    /// The longest time of one run; the time between two runs, in which somebody approves of a call,
    /// does not count. Default 5 minutes.
    pub timeout: Duration,
}

impl Default for ChatLimits {
    fn default() -> Self {
        Self {
            max_tool_calls: 5,
            max_tool_rounds: 5,
            max_calls_per_answer: 32,
            max_total_tokens: None,
            context_tokens: None,
            timeout: Duration::from_secs(300),
        }
    }
}

/// Which limit made the model answer in words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum LimitReached {
    /// [`max_tool_calls`](ChatLimits::max_tool_calls).
    ToolCalls,
    /// [`max_tool_rounds`](ChatLimits::max_tool_rounds).
    ToolRounds,
}
