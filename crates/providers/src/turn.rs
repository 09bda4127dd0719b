use std::sync::Arc;
use std::time::Instant;

use pillion_core::tool::ToolDefinition;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::ModelError;
use crate::message::rejected_error;

/// A conversation in the format of one provider.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ProviderConversation {
    /// The system prompt outside the messages: Anthropic's `system`, Google's `systemInstruction`,
    /// the `instructions` of OpenAI's Responses API. `None` if the provider takes the system prompt
    /// as a message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system: Option<Value>,
    /// The messages or items, oldest first.
    pub messages: Vec<Value>,
}

impl ProviderConversation {
    /// Creates a conversation from messages in the provider's format.
    ///
    /// # Errors
    /// [`Rejected`](crate::ModelErrorKind::Rejected): the conversation has no message.
    pub(crate) fn new(system: Option<Value>, messages: Vec<Value>) -> Result<Self, ModelError> {
        if messages.is_empty() {
            return Err(rejected_error("messages has no user or assistant message"));
        }
        Ok(Self { system, messages })
    }
}

/// A request to a model for one response.
#[derive(Debug, Clone)]
pub struct ModelTurn<'a> {
    /// The conversation to which the model responds.
    pub conversation: &'a ProviderConversation,
    /// The tools that the model may call; empty for a response without calls.
    pub tools: &'a [Arc<ToolDefinition>],
    /// The options of the response.
    pub options: &'a TurnOptions,
    /// Whether the response is streamed to the listener of the request.
    pub stream: bool,
    /// The time by which the response must be complete.
    pub deadline: Instant,
}

/// The options of a model's response. For an option that is `None`, the provider's default applies.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TurnOptions {
    /// The sampling temperature; most models accept 0 to 2.
    pub temperature: Option<f64>,
    /// The probability mass for nucleus sampling, 0 to 1.
    pub top_p: Option<f64>,
    /// The maximum length of the response, in tokens.
    pub max_output_tokens: Option<u64>,
    /// The stop sequences; the response ends before a stop sequence.
    pub stop: Vec<String>,
    /// The rule for the tool calls of the response. Ignored if the turn has no tools.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_choice: Option<ToolChoice>,
    /// Limits a response to at most one tool call. Google's API has no such option, and not every
    /// model respects the option; several calls of one response then run one after the other.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub one_call_at_a_time: bool,
    /// Members that are merged into the request body last, in the provider's format: objects are
    /// merged, the lists `tools`, `include` and `mcp_servers` are extended, and any other value
    /// replaces the value in the body.
    pub extra: Map<String, Value>,
}

/// The rule for the tool calls of a response.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ToolChoice {
    /// The model decides whether to call tools.
    Auto,
    /// The model calls no tool and responds with text.
    None,
    /// The model calls at least one tool.
    Required,
    /// The model calls the tool with this name.
    Tool(String),
}

/// A piece of a streamed response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Delta {
    /// Text of the response.
    Text(String),
    /// Text of the model's visible thinking.
    Thought(String),
    /// A piece of a tool call. The first piece of the call at an `index` has the ID and name of the
    /// call. The arguments arrive as pieces of JSON text.
    ToolCall {
        /// The index of the call among the response's calls, from 0.
        index: usize,
        /// The ID of the call; `None` except in the first piece.
        id: Option<String>,
        /// The name of the tool; `None` except in the first piece.
        name: Option<String>,
        /// The next piece of the arguments' JSON text.
        arguments: String,
    },
    /// The result of a tool that the provider ran itself (server-side tool), as a response body
    /// that contains only the call and its result. [`native_calls`](crate::native_calls) can parse
    /// the body. The complete response contains the call and its result, too.
    Native(Value),
}

/// A model's complete response to a turn.
#[derive(Debug, Clone, PartialEq)]
pub struct TurnResponse {
    /// The provider's response body, reassembled if the response was streamed.
    /// [`parse_tool_calls`](crate::parse_tool_calls) and related functions read it.
    pub body: Value,
    /// The reason why the response ended.
    pub finish: Finish,
    /// The token usage of the request.
    pub usage: Usage,
}

/// The provider-specific members of a response and its calls that the provider wants to receive
/// back, in the format of OpenAI's Chat Completions; empty for all other providers.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ProviderMembers {
    /// Provider-specific members of the response's message.
    pub message: Map<String, Value>,
    /// Provider-specific members of each call, in the order of the calls.
    pub calls: Vec<Map<String, Value>>,
}

/// The reason why a response ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Finish {
    /// The model finished its response.
    Stop,
    /// The model waits for the results of its calls.
    ToolCalls,
    /// The response reached its maximum length and is incomplete.
    Length,
    /// The provider withheld the response or the rest of it.
    Filtered,
    /// The response ended for another reason. Contains the provider's name of the reason.
    Other(String),
}

impl Finish {
    /// Returns whether the provider has only paused a response that uses the provider's own tools,
    /// and continues the response when it receives the same conversation again (Anthropic's
    /// `pause_turn`).
    #[must_use]
    pub fn is_pause(&self) -> bool {
        matches!(self, Self::Other(word) if word == "pause_turn")
    }

    /// Returns the finish reason of OpenAI's Chat Completions, or the provider's own value.
    #[must_use]
    pub fn reason(&self) -> &str {
        match self {
            Self::Stop => "stop",
            Self::ToolCalls => "tool_calls",
            Self::Length => "length",
            Self::Filtered => "content_filter",
            Self::Other(word) => word,
        }
    }
}

/// Token usage, as counted by the provider; all 0 if the provider reports no usage.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// The number of input tokens, including cached tokens.
    pub input_tokens: u64,
    /// The number of output tokens, including thinking.
    pub output_tokens: u64,
    /// The number of input tokens that the provider read from its cache.
    pub cached_tokens: u64,
}

impl std::ops::AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        let add = |sum: &mut u64, tokens| *sum = sum.saturating_add(tokens);
        add(&mut self.input_tokens, other.input_tokens);
        add(&mut self.output_tokens, other.output_tokens);
        add(&mut self.cached_tokens, other.cached_tokens);
    }
}

impl Usage {
    /// Returns the sum of input and output tokens.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.input_tokens.saturating_add(self.output_tokens)
    }
}

/// Returns the token count at a JSON pointer in a body; 0 if the body has no count there.
pub(crate) fn read_token_count(body: &Value, pointer: &str) -> u64 {
    body.pointer(pointer).and_then(Value::as_u64).unwrap_or(0)
}

/// Returns the delta for a piece of arguments, without the call's ID and name, which an earlier
/// delta contains.
pub(crate) fn arguments_delta(index: usize, arguments: impl Into<String>) -> Delta {
    Delta::ToolCall {
        index,
        id: None,
        name: None,
        arguments: arguments.into(),
    }
}
