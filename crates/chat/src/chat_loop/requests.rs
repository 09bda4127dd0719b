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
/// no length. Every current model supports this length; providers reject requests for a longer
/// response than the model supports.
const MAX_DEFAULT_TOKENS: u64 = 8192;

/// A conversation that is short enough to be sent.
struct FittedConversation<'a> {
    conversation: Cow<'a, ProviderConversation>,
    /// The approximate length of the request as ASCII text ([`size::measure_message`]).
    bytes: u64,
    /// The estimated size of the request, in tokens.
    tokens: u64,
    /// The number of bytes that the request saves because old tool results are omitted.
    saved_bytes: u64,
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

/// A failed request to the model.
struct FailedRequest {
    error: ChatError,
    /// The number of characters of the response that arrived before the failure
    /// ([`size::measure_delta`]); `None` if the request was not sent.
    received_size: Option<u64>,
}

impl FailedRequest {
    /// Returns whether the listener has received a part of the response.
    fn has_partial_response(&self) -> bool {
        self.received_size
            .is_some_and(|received_size| received_size > 0)
    }

    /// Returns the estimated cost of the failed request, in tokens. Providers also bill a response
    /// that is invalid or is not read to its end.
    fn cost(&self, request_size: RequestSize) -> u64 {
        let may_cost = matches!(&self.error, ChatError::Model(error) if error.may_have_cost);
        match self.received_size {
            Some(received_size) if may_cost || received_size > 0 => {
                request_size.tokens + size::estimate_tokens(received_size, None)
            }
            _ => 0,
        }
    }
}

/// Creates the failure of a request that was not sent.
impl From<ChatError> for FailedRequest {
    fn from(error: ChatError) -> Self {
        Self {
            error,
            received_size: None,
        }
    }
}

/// Which old tool results a request omits.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Trim {
    AsNeeded,
    All,
}

impl ChatLoop {
    /// Sends one request and counts its cost. Adds to `reported_calls` the provider's own calls
    /// that the listener receives while the response arrives.
    pub(super) async fn request_turn(
        &self,
        state: &mut ChatState,
        tools: &[Arc<ToolDefinition>],
        deadline: Instant,
        reported_calls: &mut ReportedCalls,
        listener: &mut dyn ChatListener,
    ) -> Result<TurnResponse, ChatError> {
        let formatted_tools = format_tools(state.provider(), tools.iter().map(Arc::as_ref));
        let tool_bytes = formatted_tools
            .iter()
            .map(size::measure_text_value)
            .sum::<u64>();
        let extra_bytes = self
            .options
            .extra
            .values()
            .map(size::measure_text_value)
            .sum::<u64>();
        let other_bytes = tool_bytes + extra_bytes;
        let fitted_conversation = self.trim_conversation(state, other_bytes, Trim::AsNeeded)?;
        let result = self.send(
            state,
            &fitted_conversation,
            tools,
            deadline,
            reported_calls,
            listener,
        );
        let (request_size, result) = match result.await {
            Err(failed_request) if is_too_long(&failed_request.error) => {
                // The request is repeated once without any old tool result, because the provider
                // rejected it as too long and the provider's token count is more precise than the
                // estimate.
                let (rejected_size, saved_bytes) =
                    (fitted_conversation.size(), fitted_conversation.saved_bytes);
                if failed_request.error.may_have_acted() || failed_request.has_partial_response() {
                    // The request is not repeated, because a second request could run tools twice
                    // or send text to the listener twice. Only the next run sends a shorter
                    // conversation.
                    state.rejected_tokens = Some(rejected_size.tokens);
                    (rejected_size, Err(failed_request))
                } else {
                    let shorter_conversation =
                        self.trim_conversation(state, other_bytes, Trim::All)?;
                    if shorter_conversation.saved_bytes == saved_bytes {
                        return Err(failed_request.error);
                    }
                    let request_size = shorter_conversation.size();
                    let result = self
                        .send(
                            state,
                            &shorter_conversation,
                            tools,
                            deadline,
                            reported_calls,
                            listener,
                        )
                        .await;
                    if result.is_ok() {
                        state.rejected_tokens = Some(rejected_size.tokens);
                    }
                    (request_size, result)
                }
            }
            result => (fitted_conversation.size(), result),
        };
        let response = result.map_err(|failed_request| {
            let cost = failed_request.cost(request_size);
            state.spent_tokens = state.spent_tokens.saturating_add(cost);
            failed_request.error
        })?;
        record_usage(state, request_size, &response);
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
        fitted_conversation: &FittedConversation<'_>,
        tools: &[Arc<ToolDefinition>],
        deadline: Instant,
        reported_calls: &mut ReportedCalls,
        listener: &mut dyn ChatListener,
    ) -> Result<TurnResponse, FailedRequest> {
        if Instant::now() >= deadline {
            return Err(ChatError::from(timeout_error()).into());
        }
        let options = self.limit_output_tokens(state, fitted_conversation.tokens)?;
        let forbids_calls = self.limit_reached(state).is_some();
        let options = self
            .native_servers
            .add_to_options(options, state.provider(), forbids_calls);
        let turn = ModelTurn {
            conversation: &fitted_conversation.conversation,
            tools,
            options: &options,
            stream: self.is_streamed,
            deadline: deadline.into_std(),
        };
        let mut received_size = 0;
        let mut on_delta = |delta: Delta| {
            received_size += size::measure_delta(&delta);
            match delta {
                // An invalid body is ignored here, because parsing the complete response then fails
                // with an error as well.
                Delta::Native(body) => {
                    if let Ok(calls) = self.native_servers.parse_calls(state.provider(), &body) {
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
                    may_have_acted: !self.native_servers.is_empty(),
                    ..timeout_error()
                })
            });
        response.map_err(|error| FailedRequest {
            error: self.native_servers.redact_tokens(error).into(),
            received_size: Some(received_size),
        })
    }

    /// Returns the conversation to send. Omits the oldest tool results if the request would
    /// otherwise be too long. `other_bytes` is the size of the request without the conversation.
    fn trim_conversation<'a>(
        &self,
        state: &'a ChatState,
        other_bytes: u64,
        trim_mode: Trim,
    ) -> Result<FittedConversation<'a>, ModelError> {
        let mut conversation = Cow::Borrowed(&state.conversation);
        let all_messages = &state.conversation.messages;
        if let Some(trimmed_messages) = trim::without_old_media(state.provider(), all_messages) {
            conversation.to_mut().messages = trimmed_messages;
        }
        let ProviderConversation { system, messages } = &*conversation;
        let overhead_bytes = other_bytes + system.as_ref().map_or(0, size::measure_text_value);
        let bytes = overhead_bytes + messages.iter().map(size::measure_message).sum::<u64>();
        let tokens = size::estimate_tokens(bytes, state.measured_request);
        let max_tokens = self.max_request_tokens();
        let old_message_count = state.round_start.min(messages.len());
        // After the provider has rejected a request as too long, the next request gets at most
        // three quarters of the rejected size.
        let reduced_tokens = state
            .rejected_tokens
            .map(|rejected_tokens| rejected_tokens / 4 * 3);
        let target_tokens = max_tokens.into_iter().chain(reduced_tokens).min();
        let mut fitted_conversation = FittedConversation {
            conversation,
            bytes,
            tokens,
            saved_bytes: 0,
        };
        let bytes_to_trim = match (trim_mode, target_tokens) {
            (Trim::All, _) => u64::MAX,
            (Trim::AsNeeded, Some(target_tokens)) if tokens > target_tokens => {
                bytes - size::scale(bytes, target_tokens, tokens)
            }
            (Trim::AsNeeded, _) => 0,
        };
        if bytes_to_trim > 0 {
            let shorter_conversation = fitted_conversation.conversation.to_mut();
            fitted_conversation.saved_bytes = trim::trim(
                state.provider(),
                &mut shorter_conversation.messages[..old_message_count],
                bytes_to_trim,
            );
            fitted_conversation.bytes -= fitted_conversation.saved_bytes;
            fitted_conversation.tokens =
                size::estimate_tokens(fitted_conversation.bytes, state.measured_request);
        }
        match max_tokens {
            Some(max_tokens) if fitted_conversation.tokens > max_tokens => Err(ModelError::new(
                ModelErrorKind::ContextTooLong,
                format!(
                    "the conversation has about {} tokens even without old tool results; the \
                    model's context has room for {max_tokens}",
                    fitted_conversation.tokens
                ),
            )),
            _ => Ok(fitted_conversation),
        }
    }

    /// Returns the maximum size of a request, in tokens, that leaves room for the response.
    fn max_request_tokens(&self) -> Option<u64> {
        let context_tokens = self.limits.context_tokens?;
        let output_tokens = self.options.max_output_tokens.unwrap_or(0);
        Some(context_tokens - output_tokens.min(context_tokens / 2))
    }

    /// Returns the options of a request, with the response limited to the tokens that remain of the
    /// chat's token limit.
    fn limit_output_tokens(
        &self,
        state: &ChatState,
        request_tokens: u64,
    ) -> Result<Cow<'_, TurnOptions>, ChatError> {
        let Some(limit) = self.limits.max_total_tokens else {
            return Ok(Cow::Borrowed(&self.options));
        };
        let spent_tokens = state.spent_tokens;
        let remaining_tokens = limit
            .saturating_sub(spent_tokens)
            .saturating_sub(request_tokens);
        let api = state.provider().api();
        let thinking_tokens = api.thinking_tokens(&self.options);
        let min_output_tokens = thinking_tokens.saturating_add(api.min_output_tokens());
        if remaining_tokens < min_output_tokens {
            return Err(ChatError::TokenLimit {
                limit,
                spent_tokens,
            });
        }
        let default_output_tokens = MAX_DEFAULT_TOKENS.saturating_add(thinking_tokens);
        let max_output_tokens = self
            .options
            .max_output_tokens
            .unwrap_or(default_output_tokens);
        Ok(Cow::Owned(TurnOptions {
            max_output_tokens: Some(remaining_tokens.min(max_output_tokens)),
            ..self.options.clone()
        }))
    }
}

fn is_too_long(error: &ChatError) -> bool {
    matches!(error, ChatError::Model(error) if error.kind == ModelErrorKind::ContextTooLong)
}

/// Adds the token usage of a response to the cost of the chat.
fn record_usage(state: &mut ChatState, request_size: RequestSize, response: &TurnResponse) {
    let usage = response.usage;
    state.requests += 1;
    state.usage += usage;
    let cost = match usage.total() {
        // If the provider reports no usage, the cost is estimated, so that the token limit still
        // holds.
        0 => {
            request_size.tokens + size::estimate_tokens(size::measure_message(&response.body), None)
        }
        total => total,
    };
    state.spent_tokens = state.spent_tokens.saturating_add(cost);
    if usage.input_tokens > 0 {
        state.measured_request = Some(size::MeasuredRequest {
            bytes: request_size.bytes,
            tokens: usage.input_tokens,
        });
    }
}
