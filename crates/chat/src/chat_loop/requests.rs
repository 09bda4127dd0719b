use std::borrow::Cow;
use std::sync::Arc;

use pillion_core::tool::ToolDefinition;
use pillion_deadline::timeout_at;
use pillion_providers::format_tools;
use tokio::time::Instant;

use super::native::ReportedCalls;
use super::{ChatLoop, size, timeout_error, trim};
use crate::{
    ChatError, ChatEvent, ChatListener, ChatState, Delta, ModelError, ModelErrorKind, ModelTurn,
    ProviderConversation, TurnOptions, TurnResponse,
};

/// The maximum length of a response, in tokens, if the chat has a token limit and the options set
/// no length. Every current model can write a response of this length, and providers reject a
/// length that the model does not support.
const MAX_DEFAULT_TOKENS: u64 = 8192;

/// A conversation that is short enough to be sent.
struct FittedConversation<'a> {
    conversation: Cow<'a, ProviderConversation>,
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

impl FittedConversation<'_> {
    fn size(&self) -> RequestSize {
        RequestSize {
            bytes: self.bytes,
            tokens: self.tokens,
        }
    }
}

/// A request to the model that failed.
struct FailedRequest {
    error: ChatError,
    /// The size of the pieces received before the failure, as [`size`] counts; `None` if the
    /// request was not sent.
    received_size: Option<u64>,
}

impl FailedRequest {
    /// Returns whether the listener has received a part of the response.
    fn has_partial_response(&self) -> bool {
        self.received_size
            .is_some_and(|received_size| received_size > 0)
    }

    /// Returns the estimated cost in tokens: a provider also bills a response that is not read to
    /// its end or is invalid.
    fn cost(&self, request: RequestSize) -> u64 {
        let may_cost = matches!(&self.error, ChatError::Model(error) if error.may_have_cost);
        match self.received_size {
            Some(received_size) if may_cost || received_size > 0 => {
                request.tokens + size::tokens(received_size, None)
            }
            _ => 0,
        }
    }
}

/// A failure before the request was sent.
impl From<ChatError> for FailedRequest {
    fn from(error: ChatError) -> Self {
        Self {
            error,
            received_size: None,
        }
    }
}

/// How many tool results a request omits.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Trim {
    AsNeeded,
    All,
}

impl ChatLoop {
    /// Sends one request and counts its cost. Native calls that were reported to the listener while
    /// the response arrived are added to `reported_calls`.
    pub(super) async fn request_turn(
        &self,
        state: &mut ChatState,
        tools: &[Arc<ToolDefinition>],
        deadline: Instant,
        reported_calls: &mut ReportedCalls,
        listener: &mut dyn ChatListener,
    ) -> Result<TurnResponse, ChatError> {
        let formatted = format_tools(state.provider(), tools.iter().map(Arc::as_ref));
        let tool_bytes = formatted.iter().map(size::text_size).sum::<u64>();
        let extra_bytes = self
            .options
            .extra
            .values()
            .map(size::text_size)
            .sum::<u64>();
        let other_bytes = tool_bytes + extra_bytes;
        let fitted = self.trim_conversation(state, other_bytes, Trim::AsNeeded)?;
        let result = self.send(state, &fitted, tools, deadline, reported_calls, listener);
        let (request, result) = match result.await {
            Err(failed) if is_too_long(&failed.error) => {
                // The provider's token count is more precise than the estimate, so the request is
                // repeated once without any old result.
                let (rejected, saved) = (fitted.size(), fitted.saved);
                if failed.error.may_have_acted() || failed.has_partial_response() {
                    // A repeated request could act twice, or send text to the listener twice, so
                    // only the next run uses the provider's count.
                    state.rejected_tokens = Some(rejected.tokens);
                    (rejected, Err(failed))
                } else {
                    let shorter = self.trim_conversation(state, other_bytes, Trim::All)?;
                    if shorter.saved == saved {
                        return Err(failed.error);
                    }
                    let request = shorter.size();
                    let result = self
                        .send(state, &shorter, tools, deadline, reported_calls, listener)
                        .await;
                    if result.is_ok() {
                        state.rejected_tokens = Some(rejected.tokens);
                    }
                    (request, result)
                }
            }
            result => (fitted.size(), result),
        };
        let response = result.map_err(|failed| {
            let cost = failed.cost(request);
            state.spent_tokens = state.spent_tokens.saturating_add(cost);
            failed.error
        })?;
        record_usage(state, request, &response);
        listener.on_event(ChatEvent::Usage {
            request: state.requests,
            usage: response.usage,
            total: state.usage,
        });
        Ok(response)
    }

    async fn send(
        &self,
        state: &ChatState,
        fitted: &FittedConversation<'_>,
        tools: &[Arc<ToolDefinition>],
        deadline: Instant,
        reported_calls: &mut ReportedCalls,
        listener: &mut dyn ChatListener,
    ) -> Result<TurnResponse, FailedRequest> {
        if Instant::now() >= deadline {
            return Err(ChatError::from(timeout_error()).into());
        }
        let options = self.limit_output_tokens(state, fitted.tokens)?;
        let forbids_calls = self.limit_reached(state).is_some();
        let options = self
            .native
            .add_to_options(options, state.provider(), forbids_calls);
        let turn = ModelTurn {
            conversation: &fitted.conversation,
            tools,
            options: &options,
            stream: self.is_streamed,
            deadline: deadline.into_std(),
        };
        let mut received_size = 0;
        let mut on_delta = |delta: Delta| {
            received_size += size::delta_size(&delta);
            match delta {
                // If the body of this delta is invalid, the complete response will fail to parse as
                // well.
                Delta::Native(body) => {
                    if let Ok(calls) = self.native.read(state.provider(), &body) {
                        reported_calls.report_new(&calls, listener);
                    }
                }
                delta => listener.on_event(ChatEvent::Delta(delta)),
            }
        };
        let response = timeout_at(deadline, self.model.respond(&turn, &mut on_delta))
            .await
            .unwrap_or_else(|_| {
                Err(ModelError {
                    may_have_acted: !self.native.is_empty(),
                    ..timeout_error()
                })
            });
        response.map_err(|error| FailedRequest {
            error: self.native.without_tokens(error).into(),
            received_size: Some(received_size),
        })
    }

    /// Returns the conversation, without the oldest results if it would be too long. `other_bytes`
    /// is the size of the other members of the request.
    fn trim_conversation<'a>(
        &self,
        state: &'a ChatState,
        other_bytes: u64,
        how: Trim,
    ) -> Result<FittedConversation<'a>, ModelError> {
        let mut conversation = Cow::Borrowed(&state.conversation);
        let messages = &state.conversation.messages;
        if let Some(messages) = trim::without_old_media(state.provider(), messages) {
            conversation.to_mut().messages = messages;
        }
        let ProviderConversation { system, messages } = &*conversation;
        let other_bytes = other_bytes + system.as_ref().map_or(0, size::text_size);
        let bytes = other_bytes + messages.iter().map(size::bytes).sum::<u64>();
        let tokens = size::tokens(bytes, state.measured);
        let max_tokens = self.max_request_tokens();
        let old = state.round_at.min(messages.len());
        // A request of a size that the provider rejected once would be rejected again.
        let known = state.rejected_tokens.map(|rejected| rejected / 4 * 3);
        let target = max_tokens.into_iter().chain(known).min();
        let mut fitted = FittedConversation {
            conversation,
            bytes,
            tokens,
            saved: 0,
        };
        let bytes_to_trim = match (how, target) {
            (Trim::All, _) => u64::MAX,
            (Trim::AsNeeded, Some(target)) if tokens > target => {
                bytes - size::part(bytes, target, tokens)
            }
            (Trim::AsNeeded, _) => 0,
        };
        if bytes_to_trim > 0 {
            let shorter = fitted.conversation.to_mut();
            fitted.saved = trim::trim(
                state.provider(),
                &mut shorter.messages[..old],
                bytes_to_trim,
            );
            fitted.bytes -= fitted.saved;
            fitted.tokens = size::tokens(fitted.bytes, state.measured);
        }
        match max_tokens {
            Some(max_tokens) if fitted.tokens > max_tokens => Err(ModelError::new(
                ModelErrorKind::ContextTooLong,
                format!(
                    "the conversation has about {} tokens even without old tool results; the \
                    model's context has room for {max_tokens}",
                    fitted.tokens
                ),
            )),
            _ => Ok(fitted),
        }
    }

    /// Returns the maximum size of a request, in tokens, that leaves room for the response.
    fn max_request_tokens(&self) -> Option<u64> {
        let context = self.limits.context_tokens?;
        let output_tokens = self.options.max_output_tokens.unwrap_or(0);
        Some(context - output_tokens.min(context / 2))
    }

    /// Returns the options, with the response limited to the tokens that are left to spend.
    fn limit_output_tokens(
        &self,
        state: &ChatState,
        request_tokens: u64,
    ) -> Result<Cow<'_, TurnOptions>, ChatError> {
        let Some(limit) = self.limits.max_total_tokens else {
            return Ok(Cow::Borrowed(&self.options));
        };
        let spent = state.spent_tokens;
        let left = limit.saturating_sub(spent).saturating_sub(request_tokens);
        let api = state.provider().api();
        let thinking = api.thinking_tokens(&self.options);
        let min_length = thinking.saturating_add(api.min_output_tokens());
        if left < min_length {
            return Err(ChatError::Spent { limit, spent });
        }
        let default_length = MAX_DEFAULT_TOKENS.saturating_add(thinking);
        let max_length = self.options.max_output_tokens.unwrap_or(default_length);
        Ok(Cow::Owned(TurnOptions {
            max_output_tokens: Some(left.min(max_length)),
            ..self.options.clone()
        }))
    }
}

fn is_too_long(error: &ChatError) -> bool {
    matches!(error, ChatError::Model(error) if error.kind == ModelErrorKind::ContextTooLong)
}

/// Adds a response to the cost of the chat.
fn record_usage(state: &mut ChatState, request: RequestSize, response: &TurnResponse) {
    let usage = response.usage;
    state.requests += 1;
    state.usage += usage;
    let spent = match usage.total() {
        // Not every provider reports usage, but the limit must still hold.
        0 => request.tokens + size::tokens(size::bytes(&response.body), None),
        total => total,
    };
    state.spent_tokens = state.spent_tokens.saturating_add(spent);
    if usage.input_tokens > 0 {
        state.measured = Some(size::MeasuredRequest {
            bytes: request.bytes,
            tokens: usage.input_tokens,
        });
    }
}
