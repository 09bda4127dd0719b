use async_trait::async_trait;
use pillion_core::provider::Provider;
use pillion_core::tool::ToolDefinition;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::sync::Arc;
use std::time::Instant;

use crate::ModelError;

/// A language model at a provider, or whatever else answers like one.
///
/// Object-safe, so that a loop, a tool or a test takes an `Arc<dyn LanguageModel>`.
#[async_trait]
pub trait LanguageModel: Send + Sync {
    /// In whose shapes the conversation and the answer are.
    fn provider(&self) -> Provider;

    /// Brings messages into the shapes of [`provider`](Self::provider). They come in those of
    /// OpenAI's chat completions, which is what applications hold: `{role, content, ...}`, with
    /// `tool_calls` and messages of role `tool` from earlier turns.
    ///
    /// # Errors
    /// [`Refused`](crate::ModelErrorKind::Refused), with the place of a message that cannot be read.
    fn conversation(&self, messages: &[Value]) -> Result<Conversation, ModelError>;

    /// Answers one turn. Pieces of the answer go to `listener` as they come, where the turn asks
    /// for that; the answer that is returned has all of it.
    ///
    /// Dropping the future ends the request.
    ///
    /// # Errors
    /// [`ModelError`], after whatever repetition is in order for the provider.
    async fn respond(
        &self,
        turn: &Turn<'_>,
        listener: &mut (dyn FnMut(Delta) + Send),
    ) -> Result<Answer, ModelError>;
}

/// A conversation in the shapes of one provider.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Conversation {
    /// What the provider takes beside the messages: Anthropic's `system`, Google's
    /// `systemInstruction`, the `instructions` of OpenAI's Responses; none where it is a message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system: Option<Value>,
    /// The messages or items, oldest first.
    pub messages: Vec<Value>,
}

/// What a model is asked.
#[derive(Debug, Clone)]
pub struct Turn<'a> {
    /// The conversation so far.
    pub conversation: &'a Conversation,
    /// The tools that it may call; none to have it answer in words.
    pub tools: &'a [Arc<ToolDefinition>],
    /// How it is to answer.
    pub options: &'a TurnOptions,
    /// Whether pieces of the answer are wanted as they come.
    pub stream: bool,
    /// When the answer has to be there.
    pub deadline: Instant,
}

/// How a model is to answer. What is `None` is left to the provider.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TurnOptions {
    /// 0 to 2 for most.
    pub temperature: Option<f64>,
    /// The probability mass that is sampled from, 0 to 1.
    pub top_p: Option<f64>,
    /// The longest answer, in tokens.
    pub max_output_tokens: Option<u64>,
    /// Where the answer ends before it.
    pub stop: Vec<String>,
    /// Whether it has to call a tool. Counts where the turn has tools.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_choice: Option<ToolChoice>,
    /// Whether it is to make one call at most in an answer. Google's API cannot be told, and not every
    /// model does as it is told: several calls of one answer run one after the other then.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub one_call_at_a_time: bool,
    /// Members of the request's body that go to the provider as they are, in its own words.
    /// They stand in for what is said above.
    pub extra: Map<String, Value>,
}

impl TurnOptions {
    /// How many tokens of an answer of Anthropic's are for thinking, as [`extra`](Self::extra) says.
    pub(crate) fn thinking_budget(&self) -> u64 {
        let thinking = self.extra.get("thinking");
        let budget = thinking.and_then(|thinking| thinking.get("budget_tokens")?.as_u64());
        budget.unwrap_or(0)
    }
}

/// Which tools a model calls.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ToolChoice {
    /// As it likes.
    Auto,
    /// None: it answers in words.
    None,
    /// One at least.
    Required,
    /// That of this name.
    Tool(String),
}

/// A piece of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Delta {
    /// Words of the answer.
    Text(String),
    /// Words of what the model shows of its thinking.
    Thought(String),
    /// A piece of a tool call: the first of an `index` has its id and its name, the arguments
    /// come in pieces of JSON text (requirement H6).
    ToolCall {
        /// Which call of the answer, from 0.
        index: usize,
        /// Its id, with the first piece.
        id: Option<String>,
        /// Its tool, with the first piece.
        name: Option<String>,
        /// The next piece of its arguments.
        arguments: String,
    },
    /// What has come of a tool that the provider calls by itself: a body with that alone, which
    /// [`pillion_core::provider::native_calls`] reads. The whole answer has it as well.
    Native(Value),
}

/// A model's whole answer to a turn.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// The response's body as the provider gives it, put together where it was streamed: what
    /// [`pillion_core::provider::parse_tool_calls`] and its siblings read.
    pub body: Value,
    /// Why it ended.
    pub finish: Finish,
    /// What it cost.
    pub usage: Usage,
}

/// Why an answer ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Finish {
    /// The model had said everything.
    Stop,
    /// It waits for the results of its calls.
    ToolCalls,
    /// The longest answer was reached; what is there is incomplete.
    Length,
    /// The provider withheld an answer, or the rest of it.
    Filtered,
    /// Anything else, in the provider's word.
    Other(String),
}

impl Finish {
    /// Whether the provider has only paused tools that it runs by itself, and goes on when it gets
    /// the same conversation again: Anthropic's `pause_turn`.
    #[must_use]
    pub fn is_pause(&self) -> bool {
        matches!(self, Self::Other(word) if word == "pause_turn")
    }
}

/// What answers cost, in tokens, as the provider counts them. All 0 where it does not say.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens read, those from the provider's cache included.
    pub input_tokens: u64,
    /// Tokens written, thoughts included.
    pub output_tokens: u64,
    /// Tokens read from the provider's cache.
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
    /// Tokens read and written.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.input_tokens.saturating_add(self.output_tokens)
    }
}
