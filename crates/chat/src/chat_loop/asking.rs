use std::borrow::Cow;
use std::sync::Arc;

use pillion_core::provider::{Provider, format_tools};
use pillion_core::tool::ToolDefinition;
use tokio::time::{Instant, timeout_at};

use super::native::ReportedCalls;
use super::{ChatLoop, out_of_time, size, trim};
use crate::state::Measured;
use crate::{
    Answer, ChatError, ChatEvent, ChatListener, ChatState, Conversation, Delta, ModelError,
    ModelErrorKind, Turn, TurnOptions,
};

/// The maximum length of an answer, in tokens, if the chat has a token limit and the options set no
/// length. Every current model can write this much, and providers reject more than their model can
/// write.
const MAX_DEFAULT_TOKENS: u64 = 8192;

/// The smallest `max_output_tokens` that OpenAI's Responses API accepts.
const MIN_RESPONSE_TOKENS: u64 = 16;

/// A conversation that is short enough to be sent.
struct Fitted<'a> {
    conversation: Cow<'a, Conversation>,
    bytes: u64,
    /// The estimated size of the request, in tokens.
    tokens: u64,
    /// The bytes saved by leaving out results.
    saved: u64,
}

#[derive(Clone, Copy)]
struct RequestSize {
    bytes: u64,
    tokens: u64,
}

impl Fitted<'_> {
    fn size(&self) -> RequestSize {
        RequestSize {
            bytes: self.bytes,
            tokens: self.tokens,
        }
    }
}

/// A failed request.
struct Unanswered {
    error: ChatError,
    /// The size of the pieces received before the failure, as [`size`] counts; `None` if the
    /// request was not sent.
    heard: Option<u64>,
}

impl Unanswered {
    /// Returns whether the listener has received a part of the answer.
    fn was_heard(&self) -> bool {
        self.heard.is_some_and(|heard| heard > 0)
    }

    /// Returns the estimated cost in tokens: a provider also bills an answer that is not read to
    /// its end or is invalid.
    fn cost(&self, request: RequestSize) -> u64 {
        let may_cost = matches!(&self.error, ChatError::Model(error) if error.may_have_cost);
        match self.heard {
            Some(heard) if may_cost || heard > 0 => request.tokens + size::tokens(heard, None),
            _ => 0,
        }
    }
}

/// A failure before the request was sent.
impl From<ChatError> for Unanswered {
    fn from(error: ChatError) -> Self {
        Self { error, heard: None }
    }
}

/// How many tool results are left out.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Trim {
    AsNeeded,
    All,
}

impl ChatLoop {
    /// Sends one request and counts its cost. Native calls that were reported to the listener while
    /// the answer arrived are added to `told`.
    pub(super) async fn ask(
        &self,
        state: &mut ChatState,
        tools: &[Arc<ToolDefinition>],
        deadline: Instant,
        told: &mut ReportedCalls,
        listener: &mut dyn ChatListener,
    ) -> Result<Answer, ChatError> {
        let tool_bytes = format_tools(state.provider(), tools.iter().map(Arc::as_ref));
        let tool_bytes = tool_bytes.iter().map(size::plain).sum::<u64>();
        let extra_bytes = self.options.extra.values().map(size::plain).sum::<u64>();
        let beside = tool_bytes + extra_bytes;
        let fitted = self.fit(state, beside, Trim::AsNeeded)?;
        let asked = self.send(state, &fitted, tools, deadline, told, listener);
        let (request, asked) = match asked.await {
            Err(failed) if is_too_long(&failed.error) => {
                // The provider's count is more precise than the estimate: try once more without any
                // old result.
                let (refused, saved) = (fitted.size(), fitted.saved);
                if failed.error.may_have_acted() || failed.was_heard() {
                    // A repetition would act again, or send text to the listener again; only the
                    // next run uses the knowledge.
                    state.refused_tokens = Some(refused.tokens);
                    (refused, Err(failed))
                } else {
                    let shorter = self.fit(state, beside, Trim::All)?;
                    if shorter.saved == saved {
                        return Err(failed.error);
                    }
                    let request = shorter.size();
                    let asked = self.send(state, &shorter, tools, deadline, told, listener);
                    let asked = asked.await;
                    if asked.is_ok() {
                        state.refused_tokens = Some(refused.tokens);
                    }
                    (request, asked)
                }
            }
            asked => (fitted.size(), asked),
        };
        let answer = asked.map_err(|failed| {
            let cost = failed.cost(request);
            state.spent_tokens = state.spent_tokens.saturating_add(cost);
            failed.error
        })?;
        count(state, request, &answer);
        listener.hear(ChatEvent::Usage {
            request: state.requests,
            usage: answer.usage,
            total: state.usage,
        });
        Ok(answer)
    }

    async fn send(
        &self,
        state: &ChatState,
        fitted: &Fitted<'_>,
        tools: &[Arc<ToolDefinition>],
        deadline: Instant,
        told: &mut ReportedCalls,
        listener: &mut dyn ChatListener,
    ) -> Result<Answer, Unanswered> {
        if Instant::now() >= deadline {
            return Err(ChatError::from(out_of_time()).into());
        }
        let options = self.affordable(state, fitted.tokens)?;
        let in_words = self.limit_reached(state).is_some();
        let options = self.native.add_to(options, state.provider(), in_words);
        let turn = Turn {
            conversation: &fitted.conversation,
            tools,
            options: &options,
            stream: self.is_streamed,
            deadline: deadline.into_std(),
        };
        let mut heard = 0;
        let mut hear = |delta: Delta| {
            heard += size::of_delta(&delta);
            match delta {
                // If this body is invalid, the complete answer will fail to parse as well.
                Delta::Native(body) => {
                    if let Ok(calls) = self.native.read(state.provider(), &body) {
                        told.tell(&calls, listener);
                    }
                }
                delta => listener.hear(ChatEvent::Delta(delta)),
            }
        };
        let answer = timeout_at(deadline, self.model.respond(&turn, &mut hear)).await;
        let answer = answer.unwrap_or_else(|_| {
            Err(ModelError {
                may_have_acted: !self.native.is_empty(),
                ..out_of_time()
            })
        });
        answer.map_err(|error| Unanswered {
            error: self.native.without_tokens(error).into(),
            heard: Some(heard),
        })
    }

    /// Returns the conversation, with old results left out if it would be too long. `beside` is the
    /// size of the rest of the request, in bytes.
    fn fit<'a>(
        &self,
        state: &'a ChatState,
        beside: u64,
        how: Trim,
    ) -> Result<Fitted<'a>, ModelError> {
        let Conversation { system, messages } = &state.conversation;
        let beside = beside + system.as_ref().map_or(0, size::plain);
        let bytes = beside + messages.iter().map(size::bytes).sum::<u64>();
        let tokens = size::tokens(bytes, state.measured);
        let room = self.room();
        // A size that was rejected once will be too long again.
        let known = state.refused_tokens.map(|refused| refused / 4 * 3);
        let aim = room.into_iter().chain(known).min();
        let mut fitted = Fitted {
            conversation: Cow::Borrowed(&state.conversation),
            bytes,
            tokens,
            saved: 0,
        };
        let enough = match (how, aim) {
            (Trim::All, _) => u64::MAX,
            (Trim::AsNeeded, Some(aim)) if tokens > aim => bytes - size::part(bytes, aim, tokens),
            (Trim::AsNeeded, _) => 0,
        };
        if enough > 0 {
            let old = state.round_at.min(messages.len());
            let shorter = fitted.conversation.to_mut();
            fitted.saved = trim::trim(state.provider(), &mut shorter.messages[..old], enough);
            fitted.bytes -= fitted.saved;
            fitted.tokens = size::tokens(fitted.bytes, state.measured);
        }
        match room {
            Some(room) if fitted.tokens > room => Err(ModelError::new(
                ModelErrorKind::ContextTooLong,
                format!(
                    "the conversation has about {} tokens even without old tool results; the \
                    model's context has room for {room}",
                    fitted.tokens
                ),
            )),
            _ => Ok(fitted),
        }
    }

    /// Returns the maximum size of a request, in tokens, that leaves room for the answer.
    fn room(&self) -> Option<u64> {
        let context = self.limits.context_tokens?;
        let answer = self.options.max_output_tokens.unwrap_or(0);
        Some(context - answer.min(context / 2))
    }

    /// Returns the options, with the answer limited to the tokens that are left to spend.
    fn affordable(
        &self,
        state: &ChatState,
        request_tokens: u64,
    ) -> Result<Cow<'_, TurnOptions>, ChatError> {
        let Some(limit) = self.limits.max_total_tokens else {
            return Ok(Cow::Borrowed(&self.options));
        };
        let spent = state.spent_tokens;
        let left = limit.saturating_sub(spent).saturating_sub(request_tokens);
        // At Anthropic, thinking counts towards the maximum length of the answer.
        let thinking = match state.provider() {
            Provider::Anthropic => self.options.thinking_budget(),
            _ => 0,
        };
        let shortest = match state.provider() {
            Provider::OpenAiResponses => MIN_RESPONSE_TOKENS,
            _ => thinking.saturating_add(1),
        };
        if left < shortest {
            return Err(ChatError::Spent { limit, spent });
        }
        let unasked = MAX_DEFAULT_TOKENS.saturating_add(thinking);
        let wanted = self.options.max_output_tokens.unwrap_or(unasked);
        Ok(Cow::Owned(TurnOptions {
            max_output_tokens: Some(left.min(wanted)),
            ..self.options.clone()
        }))
    }
}

fn is_too_long(error: &ChatError) -> bool {
    matches!(error, ChatError::Model(error) if error.kind == ModelErrorKind::ContextTooLong)
}

/// Adds an answer to the cost of the chat.
fn count(state: &mut ChatState, request: RequestSize, answer: &Answer) {
    let usage = answer.usage;
    state.requests += 1;
    state.usage += usage;
    let spent = match usage.total() {
        // Not every provider reports usage, but the limit must still hold.
        0 => request.tokens + size::tokens(size::bytes(&answer.body), None),
        said => said,
    };
    state.spent_tokens = state.spent_tokens.saturating_add(spent);
    if usage.input_tokens > 0 {
        state.measured = Some(Measured {
            bytes: request.bytes,
            tokens: usage.input_tokens,
        });
    }
}
