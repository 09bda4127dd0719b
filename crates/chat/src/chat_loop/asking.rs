use std::borrow::Cow;
use std::sync::Arc;

use pillion_core::provider::format_tools;
use pillion_core::tool::ToolDefinition;
use tokio::time::{Instant, timeout_at};

use super::native::Told;
use super::{ChatLoop, out_of_time, size, trim};
use crate::state::Measured;
use crate::{
    Answer, ChatError, ChatEvent, ChatListener, ChatState, Conversation, Delta, ModelError,
    ModelErrorKind, Turn, TurnOptions,
};

/// How long an answer may be, in tokens, where spending is limited and nothing is said: providers refuse
/// more than their model writes, and every model of today writes as much as this.
const LONGEST_UNASKED: u64 = 8192;

/// A request that is short enough to be sent.
struct Fitted<'a> {
    conversation: Cow<'a, Conversation>,
    bytes: u64,
    /// Estimated.
    tokens: u64,
    /// Saved by leaving out results, in bytes.
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

/// How much is left out.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Trim {
    AsNeeded,
    All,
}

impl ChatLoop {
    /// Asks the model, and counts what that costs. What was told of the provider's own calls while
    /// the answer came is put into `told`.
    pub(super) async fn ask(
        &self,
        state: &mut ChatState,
        tools: &[Arc<ToolDefinition>],
        deadline: Instant,
        told: &mut Told,
        listener: &mut dyn ChatListener,
    ) -> Result<Answer, ChatError> {
        let tool_bytes = format_tools(state.provider(), tools.iter().map(Arc::as_ref));
        let tool_bytes = tool_bytes.iter().map(size::plain).sum::<u64>();
        let extra_bytes = self.options.extra.values().map(size::plain).sum::<u64>();
        let beside = tool_bytes + extra_bytes;
        let fitted = self.fit(state, beside, Trim::AsNeeded)?;
        let asked = self.send(state, &fitted, tools, deadline, told, listener);
        let asked = asked.await;
        let (request, answer) = match asked {
            Err(ChatError::Model(error)) if error.kind == ModelErrorKind::ContextTooLong => {
                // The provider knows better how long it is: without any old result, once more.
                let (refused, saved) = (fitted.tokens, fitted.saved);
                if error.may_have_acted {
                    // It would act again: the next run knows better.
                    state.refused_tokens = Some(refused);
                    return Err(error.into());
                }
                let shorter = self.fit(state, beside, Trim::All)?;
                if shorter.saved == saved {
                    return Err(error.into());
                }
                let answer = self.send(state, &shorter, tools, deadline, told, listener);
                let answer = answer.await?;
                let request = shorter.size();
                state.refused_tokens = Some(refused);
                (request, answer)
            }
            asked => (fitted.size(), asked?),
        };
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
        told: &mut Told,
        listener: &mut dyn ChatListener,
    ) -> Result<Answer, ChatError> {
        if Instant::now() >= deadline {
            return Err(out_of_time().into());
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
        let mut hear = |delta: Delta| match delta {
            // One that cannot be read fails with the whole answer.
            Delta::Native(body) => {
                if let Ok(calls) = self.native.read(state.provider(), &body) {
                    told.tell(&calls, listener);
                }
            }
            delta => listener.hear(ChatEvent::Delta(delta)),
        };
        let answer = timeout_at(deadline, self.model.respond(&turn, &mut hear)).await;
        let answer = answer.map_err(|_| ModelError {
            may_have_acted: !self.native.is_empty(),
            ..out_of_time()
        })?;
        Ok(answer.map_err(|error| self.native.without_tokens(error))?)
    }

    /// The conversation, with old results left out where it would be too long. The request has so many
    /// bytes beside it.
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
        // What was refused once is too long the next time, too.
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
                    "the conversation has about {} tokens, old results of tools left out, and there is room for {room}",
                    fitted.tokens
                ),
            )),
            _ => Ok(fitted),
        }
    }

    /// How many tokens a request may have, so that its answer has room as well.
    fn room(&self) -> Option<u64> {
        let context = self.limits.context_tokens?;
        let answer = self.options.max_output_tokens.unwrap_or(0);
        Some(context - answer.min(context / 2))
    }

    /// The options, with an answer no longer than what is left to spend.
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
        if left == 0 {
            return Err(ChatError::Spent { limit, spent });
        }
        let wanted = self.options.max_output_tokens.unwrap_or(LONGEST_UNASKED);
        Ok(Cow::Owned(TurnOptions {
            max_output_tokens: Some(left.min(wanted)),
            ..self.options.clone()
        }))
    }
}

/// Adds an answer to what the chat has cost.
fn count(state: &mut ChatState, request: RequestSize, answer: &Answer) {
    let usage = answer.usage;
    state.requests += 1;
    state.usage += usage;
    let spent = match usage.total() {
        // Not every provider says it, and the limit has to hold all the same.
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
