use std::num::{NonZeroU64, NonZeroUsize};
use std::time::Duration;

use pillion_chat::ChatLimits;
use serde::Deserialize;

use super::millis;

/// `[chat]`: chats with language models that use tools.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct ChatSection {
    /// The model of chats that do not name a model. Default: the first of `[[models]]` that has a
    /// provider.
    pub model: Option<String>,
    /// Maximum number of tool calls before the model must respond with text.
    pub max_tool_calls: NonZeroUsize,
    /// Maximum number of responses with tool calls before the model must respond with text.
    pub max_tool_rounds: NonZeroUsize,
    /// Maximum number of tool calls of one response that run; further calls of the response end
    /// with an error.
    pub max_calls_per_answer: NonZeroUsize,
    /// Maximum number of tokens that one chat may read and write.
    pub max_total_tokens: Option<NonZeroU64>,
    /// Maximum time from a message to the model's final response, without the wait for approvals.
    /// Listing the tools of MCP servers takes at most half of this time.
    #[serde(rename = "timeout_ms", deserialize_with = "millis::read_positive")]
    #[cfg_attr(test, schemars(with = "u64", range(min = 1, max = millis::MAX_MS)))]
    pub timeout: Duration,
    /// How long a chat is kept after its last message.
    #[serde(rename = "retention_ms", deserialize_with = "millis::read_positive")]
    #[cfg_attr(test, schemars(with = "u64", range(min = 1, max = millis::MAX_MS)))]
    pub retention: Duration,
}

impl Default for ChatSection {
    fn default() -> Self {
        let ChatLimits {
            max_tool_calls,
            max_tool_rounds,
            max_calls_per_response,
            timeout,
            ..
        } = ChatLimits::default();
        let non_zero = |count| NonZeroUsize::new(count).unwrap_or(NonZeroUsize::MIN);
        Self {
            model: None,
            max_tool_calls: non_zero(max_tool_calls),
            max_tool_rounds: non_zero(max_tool_rounds),
            max_calls_per_answer: non_zero(max_calls_per_response),
            max_total_tokens: None,
            timeout,
            retention: Duration::from_secs(24 * 60 * 60),
        }
    }
}

impl ChatSection {
    /// Returns the limits of a chat with a model. `context_tokens` is the size of the model's
    /// context, if known.
    pub fn limits(&self, context_tokens: Option<NonZeroU64>) -> ChatLimits {
        ChatLimits {
            max_tool_calls: self.max_tool_calls.get(),
            max_tool_rounds: self.max_tool_rounds.get(),
            max_calls_per_response: self.max_calls_per_answer.get(),
            max_total_tokens: self.max_total_tokens.map(NonZeroU64::get),
            context_tokens: context_tokens.map(NonZeroU64::get),
            timeout: self.timeout,
        }
    }
}
