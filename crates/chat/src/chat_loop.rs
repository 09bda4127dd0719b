mod native;
mod requests;
mod rounds;
mod single_turn;
pub(crate) mod size;
#[cfg(test)]
mod tests;
pub(crate) mod trim;

use std::sync::Arc;

use pillion_core::executor::RESPONSE_ALLOWANCE;
use pillion_core::tool::{CallContext, ErrorCode, ToolDefinition, ToolFailure};
use pillion_deadline::timeout_at;
use pillion_providers::{
    Provider, assistant_messages, assistant_text, format_permits, format_results, parse_tool_calls,
};
use serde_json::Value;
use tokio::time::Instant;

pub use single_turn::SingleTurn;

use crate::depth::{MAX_DEPTH, is_too_deep};
use crate::{
    ChatError, ChatEvent, ChatLimits, ChatListener, ChatState, FinalResponse, Finish,
    LanguageModel, LimitReached, ModelError, ModelErrorKind, ProviderConversation, ResponseEnd,
    ToolRunner, TurnOptions, TurnResponse, WaitingCall,
};

pub use native::NativeServer;
use native::{NativeServers, ReportedCalls};

/// The status line that the listener receives when the chat reaches its maximum number of tool
/// calls or tool rounds.
const LIMIT_REACHED_STATUS: &str =
    "Maximum tool execution rounds reached. Generating final response...";

/// Lets a model use tools until the model responds with text only.
#[derive(Clone)]
pub struct ChatLoop {
    model: Arc<dyn LanguageModel>,
    runner: Arc<dyn ToolRunner>,
    tools: Vec<Arc<ToolDefinition>>,
    native_servers: NativeServers,
    options: TurnOptions,
    limits: ChatLimits,
    is_streamed: bool,
}

/// The outcome of [`ChatLoop::run`].
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum ChatEnd {
    /// The model has responded with text, without calls.
    Answered(FinalResponse),
    /// The run ended because these calls wait for approval; all other calls of the response have
    /// ended. After the approvals are decided, another run continues the chat.
    AwaitingApproval(Vec<WaitingCall>),
}

impl ChatLoop {
    /// Creates a loop without tools, with the default options and limits.
    #[must_use]
    pub fn new(model: Arc<dyn LanguageModel>, runner: Arc<dyn ToolRunner>) -> Self {
        Self {
            model,
            runner,
            tools: Vec::new(),
            native_servers: NativeServers::default(),
            options: TurnOptions::default(),
            limits: ChatLimits::default(),
            is_streamed: false,
        }
    }

    /// Sets the tools that the model sees. The caller decides which tools the model may see
    /// ([`pillion_core::capability`]).
    #[must_use]
    pub fn with_tools(self, tools: Vec<Arc<ToolDefinition>>) -> Self {
        Self { tools, ..self }
    }

    /// Lets the provider itself call the tools of these MCP servers, in addition to the tools that
    /// Pillion runs. The request describes the servers with
    /// [`ToolFormat::native_members`](pillion_providers::ToolFormat::native_members). If the
    /// provider requests permission for a call, [`ToolRunner::permit`] decides, and the call can
    /// wait for approval like any other call.
    #[must_use]
    pub fn with_native_servers(self, servers: Vec<NativeServer>) -> Self {
        Self {
            native_servers: NativeServers(servers),
            ..self
        }
    }

    /// Sets the options for the model's responses, such as the temperature and the maximum length.
    #[must_use]
    pub fn with_options(self, options: TurnOptions) -> Self {
        Self { options, ..self }
    }

    /// Sets the limits of the chat.
    #[must_use]
    pub fn with_limits(self, limits: ChatLimits) -> Self {
        Self { limits, ..self }
    }

    /// Sets whether the listener receives pieces of a response as the pieces arrive.
    #[must_use]
    pub fn with_streaming(self, is_streamed: bool) -> Self {
        Self {
            is_streamed,
            ..self
        }
    }

    /// Creates a chat with these messages, in the format of [`LanguageModel::conversation`],
    /// without sending a request.
    ///
    /// # Errors
    /// [`Rejected`](ModelErrorKind::Rejected): a message is invalid.
    pub fn begin(&self, messages: &[Value]) -> Result<ChatState, ModelError> {
        self.begin_conversation(self.model.conversation(messages)?)
    }

    /// Creates a chat with a conversation in the format of the model's provider.
    ///
    /// # Errors
    /// [`Rejected`](ModelErrorKind::Rejected): the conversation or the options have more than 100
    /// levels of nesting.
    pub fn begin_conversation(
        &self,
        conversation: ProviderConversation,
    ) -> Result<ChatState, ModelError> {
        check_depth("messages", &conversation.messages)?;
        check_depth("system", &conversation.system)?;
        check_depth("extra", self.options.extra.values())?;
        Ok(ChatState::new(self.model.provider(), conversation))
    }

    /// Adds messages, such as the user's next message, to a chat in which the model has given its
    /// final response, and resets the counters of the limits on tool calls.
    ///
    /// # Errors
    /// [`Rejected`](ModelErrorKind::Rejected):
    /// - A message is invalid or nested too deeply.
    /// - The chat belongs to another provider.
    /// - A call in the chat has no result yet.
    /// - A message is a system message, but the provider accepts a system prompt only at the
    ///   beginning of the chat, outside of the messages.
    pub fn add(&self, state: &mut ChatState, messages: &[Value]) -> Result<(), ModelError> {
        self.check_provider(state)?;
        if state.round.is_some() {
            return Err(rejection(format_open_calls(&state.waiting_calls())));
        }
        let ProviderConversation { system, messages } = self.model.conversation(messages)?;
        if system.is_some() {
            return Err(rejection(format!(
                "the added messages contain a system message, which the provider '{}' allows only \
                 at the beginning of the chat",
                state.provider()
            )));
        }
        check_depth("messages", &messages)?;
        state.round_start = state.conversation.messages.len();
        state.conversation.messages.extend(messages);
        state.rounds = 0;
        state.tool_calls = 0;
        state.final_response = None;
        Ok(())
    }

    /// Continues a chat until the model responds with text or calls wait for approval.
    ///
    /// A call that waited for approval runs again and names its approval in
    /// [`CallContext::approval`]. The caller passes decisions about approvals in `context`
    /// ([`CallContext::approved`]). If the model has already given its final response, the method
    /// returns that response again.
    ///
    /// Another run can continue from the state, even after an error or after this future was
    /// dropped. No call starts twice.
    ///
    /// # Errors
    /// [`ChatError`]: a request to the model fails, the token limit is reached, or the listener
    /// cannot save the state. A failed tool call is not an error: the model receives the failure as
    /// the result of the call.
    pub async fn run(
        &self,
        state: &mut ChatState,
        context: &CallContext,
        listener: &mut dyn ChatListener,
    ) -> Result<ChatEnd, ChatError> {
        let deadline = std::time::Instant::now() + self.limits.timeout;
        self.run_until(state, context, deadline, listener).await
    }

    /// Continues a chat like [`run`](Self::run), but ends the run at `deadline` instead of after
    /// [`ChatLimits::timeout`].
    ///
    /// # Errors
    /// The same errors as [`run`](Self::run).
    pub async fn run_until(
        &self,
        state: &mut ChatState,
        context: &CallContext,
        deadline: std::time::Instant,
        listener: &mut dyn ChatListener,
    ) -> Result<ChatEnd, ChatError> {
        self.check_provider(state)?;
        let run_deadline = Instant::from_std(deadline);
        if let Some(round) = &mut state.round {
            rounds::end_interrupted_calls(round, listener);
        }
        native::revoke_sent_permits(state, listener);
        loop {
            if let Some(response) = &state.final_response {
                return Ok(ChatEnd::Answered(response.clone()));
            }
            if state.round.is_some() {
                self.run_round(state, context, run_deadline, listener)
                    .await?;
                let waiting_calls = state.waiting_calls();
                if !waiting_calls.is_empty() {
                    return Ok(ChatEnd::AwaitingApproval(waiting_calls));
                }
                if state.round.is_some() {
                    return Err(timeout_error().into());
                }
            }
            self.send_turn(state, run_deadline, listener).await?;
        }
    }

    /// Sends one request to the model and records the response in the state.
    async fn send_turn(
        &self,
        state: &mut ChatState,
        deadline: Instant,
        listener: &mut dyn ChatListener,
    ) -> Result<(), ChatError> {
        let limit_reached = self.limit_reached(state);
        let tools = match limit_reached {
            None => self.tools.as_slice(),
            Some(_) => &[],
        };
        if limit_reached.is_some() {
            listener.on_event(ChatEvent::Status(LIMIT_REACHED_STATUS.to_owned()));
        }
        let mut reported_calls = ReportedCalls::default();
        let response = self
            .send_with_permits(state, tools, deadline, &mut reported_calls, listener)
            .await?;
        let provider = state.provider();
        if is_too_deep(&response.body) {
            let message = format!(
                "The response of the provider '{provider}' is nested more than {MAX_DEPTH} levels \
                deep"
            );
            return Err(ModelError::new(ModelErrorKind::Malformed, message).into());
        }
        let calls = parse_tool_calls(provider, &response.body).map_err(ModelError::from)?;
        let text = assistant_text(provider, &response.body).map_err(ModelError::from)?;
        let messages = assistant_messages(provider, &response.body).map_err(ModelError::from)?;
        let mut native_calls = self
            .native_servers
            .parse_calls(provider, &response.body)
            .map_err(ModelError::from)?;
        reported_calls.report_new(&native_calls, listener);
        state.tool_calls += native_calls.finished_calls.len();
        let permission_requests = if self.native_servers.is_empty() {
            Vec::new()
        } else {
            std::mem::take(&mut native_calls.permission_requests)
        };
        if calls.is_empty() && permission_requests.is_empty() && text.is_empty() {
            check_finish(provider, &response.finish)?;
        }
        let round_start = state.conversation.messages.len();
        state.conversation.messages.extend(messages);
        state.permitted_calls = None;
        let may_call = !calls.is_empty() && !tools.is_empty();
        if may_call || (!permission_requests.is_empty() && limit_reached.is_none()) {
            state.round_start = round_start;
            state.rounds += 1;
            let max_calls = self.limits.max_calls_per_response;
            let round = rounds::begin_round(
                calls,
                permission_requests,
                &response.finish,
                max_calls,
                listener,
            );
            // Calls that the provider runs itself are not counted here. They are counted when a
            // later response contains their results.
            state.tool_calls += round.0.iter().filter(|call| !call.is_native).count();
            state.round = Some(round);
            return Ok(());
        }
        let is_paused = response.finish.is_pause() && calls.is_empty();
        if is_paused && state.rounds < self.limits.max_tool_rounds {
            // A response that the provider paused while it ran its own tools counts as a tool
            // round, so that the chat ends even if the provider pauses every response.
            state.rounds += 1;
            return save(state, deadline, listener).await;
        }
        // Calls that do not run get an error result, because providers require a result for every
        // call in a conversation.
        let call_rejections: Vec<_> = calls.iter().map(rounds::reject_call).collect();
        let results = format_results(provider, &call_rejections);
        state.conversation.messages.extend(results);
        let permit_rejections: Vec<_> = permission_requests
            .iter()
            .map(|request| rounds::reject_call(&request.call))
            .collect();
        let denials = format_permits(provider, &permit_rejections);
        state.conversation.messages.extend(denials);
        let final_response = FinalResponse {
            text,
            finish: response.finish,
            limit_reached,
            ending: ResponseEnd::new(provider, &response.body),
        };
        state.final_response = Some(final_response.clone());
        save(state, deadline, listener).await?;
        listener.on_event(ChatEvent::Done(final_response));
        Ok(())
    }

    /// Sends one request to the model. If the request contains approvals of calls that the provider
    /// runs itself, first saves that these may have been sent. After a failure, another request
    /// contains them only if the provider has certainly run no call.
    async fn send_with_permits(
        &self,
        state: &mut ChatState,
        tools: &[Arc<ToolDefinition>],
        deadline: Instant,
        reported_calls: &mut ReportedCalls,
        listener: &mut dyn ChatListener,
    ) -> Result<TurnResponse, ChatError> {
        let save_result = match &mut state.permitted_calls {
            Some(permitted_calls) => {
                permitted_calls.is_sent = true;
                save(state, deadline, listener).await
            }
            None => Ok(()),
        };
        let result = match save_result {
            Ok(()) => {
                self.request_turn(state, tools, deadline, reported_calls, listener)
                    .await
            }
            Err(error) => Err(error),
        };
        if let (Err(error), Some(permitted_calls)) = (&result, &mut state.permitted_calls) {
            permitted_calls.is_sent = error.may_have_acted();
        }
        result
    }

    /// Returns which limit the chat has reached, tool rounds or tool calls; `None` if the chat has
    /// reached neither limit or has no tools.
    fn limit_reached(&self, state: &ChatState) -> Option<LimitReached> {
        if self.tools.is_empty() && self.native_servers.is_empty() {
            None
        } else if state.rounds >= self.limits.max_tool_rounds {
            Some(LimitReached::ToolRounds)
        } else if state.tool_calls >= self.limits.max_tool_calls {
            Some(LimitReached::ToolCalls)
        } else {
            None
        }
    }

    fn check_provider(&self, state: &ChatState) -> Result<(), ModelError> {
        let (model_provider, chat_provider) = (self.model.provider(), state.provider());
        if model_provider == chat_provider {
            return Ok(());
        }
        Err(rejection(format!(
            "the chat is stored in the format of the provider '{chat_provider}', but the model \
            uses the format of '{model_provider}'"
        )))
    }
}

/// Checks the finish reason of a response without text and calls. Such a response is valid if it
/// finished normally, reached its maximum length, was filtered or was paused by the provider. Any
/// other finish reason is an error, so that the next run repeats the request.
fn check_finish(provider: Provider, finish: &Finish) -> Result<(), ModelError> {
    match finish {
        Finish::Stop | Finish::Length | Finish::Filtered => Ok(()),
        Finish::Other(_) if finish.is_pause() => Ok(()),
        Finish::Other(_) | Finish::ToolCalls => Err(ModelError::new(
            ModelErrorKind::Malformed,
            format!(
                "The provider '{provider}' ended the response without text: {}",
                finish.reason()
            ),
        )),
    }
}

fn check_depth<'a>(
    name: &str,
    values: impl IntoIterator<Item = &'a Value>,
) -> Result<(), ModelError> {
    if values.into_iter().any(is_too_deep) {
        return Err(rejection(format!(
            "{name}: JSON must not be nested more than {MAX_DEPTH} levels deep"
        )));
    }
    Ok(())
}

/// Returns the error message for adding a message to a chat whose calls have no results yet. The
/// error message names at most three of the approvals that the chat waits for.
fn format_open_calls(waiting_calls: &[WaitingCall]) -> String {
    const MAX_NAMED_APPROVALS: usize = 3;
    if waiting_calls.is_empty() {
        return "tool calls of the model's last response have no results yet: continue the chat \
            without a message"
            .to_owned();
    }
    let mut names: Vec<_> = waiting_calls
        .iter()
        .take(MAX_NAMED_APPROVALS)
        .map(describe_approval)
        .collect();
    if waiting_calls.len() > MAX_NAMED_APPROVALS {
        names.push(format!(
            "{} more",
            waiting_calls.len() - MAX_NAMED_APPROVALS
        ));
    }
    format!(
        "the chat waits for {}: continue the chat without a message after the decision",
        names.join(", ")
    )
}

fn describe_approval(waiting_call: &WaitingCall) -> String {
    let tool = &waiting_call.call.name;
    match &waiting_call.approval_id {
        Some(id) => format!("approval '{id}' of tool '{tool}'"),
        None => format!("a decision on tool '{tool}'"),
    }
}

fn rejection(message: impl Into<String>) -> ModelError {
    ModelError::new(ModelErrorKind::Rejected, message)
}

/// Saves the state of a chat. Returns an error if the listener cannot save the state, or does not
/// save it within [`RESPONSE_ALLOWANCE`] after the deadline.
async fn save(
    state: &ChatState,
    deadline: Instant,
    listener: &mut dyn ChatListener,
) -> Result<(), ChatError> {
    let save_result = timeout_at(deadline + RESPONSE_ALLOWANCE, listener.save_state(state))
        .await
        .unwrap_or_else(|_| {
            let message = "the store did not respond before the deadline of the chat";
            Err(ToolFailure::new(ErrorCode::Unavailable, message))
        });
    save_result.map_err(ChatError::NotSaved)
}

fn timeout_error() -> ModelError {
    let message = "the chat timed out before the final response of the model";
    ModelError::new(ModelErrorKind::Timeout, message)
}

impl std::fmt::Debug for ChatLoop {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ChatLoop")
            .field("provider", &self.model.provider())
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}
