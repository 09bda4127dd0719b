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

/// The status line when the chat reaches the limit of its tool calls or of its tool rounds.
const LIMIT_REACHED: &str = "Maximum tool execution rounds reached. Generating final response...";

/// Lets a model use tools until the model responds with text only.
#[derive(Clone)]
pub struct ChatLoop {
    model: Arc<dyn LanguageModel>,
    runner: Arc<dyn ToolRunner>,
    tools: Vec<Arc<ToolDefinition>>,
    native: NativeServers,
    options: TurnOptions,
    limits: ChatLimits,
    is_streamed: bool,
}

/// How a run of a chat ended.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum ChatEnd {
    /// The model has responded with text, without calls.
    Answered(FinalResponse),
    /// The calls wait for approval, and all other calls have run. Another run continues after the
    /// decisions.
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
            native: NativeServers::default(),
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

    /// Lets the provider call these MCP servers natively, in addition to the tools. The request
    /// describes the servers with
    /// [`ToolFormat::native_members`](pillion_providers::ToolFormat::native_members). If the
    /// provider asks for permission for a call, [`ToolRunner::permit`] decides, and the call can
    /// wait for approval like any other call.
    #[must_use]
    pub fn with_native_servers(self, servers: Vec<NativeServer>) -> Self {
        Self {
            native: NativeServers(servers),
            ..self
        }
    }

    /// Sets the options of the model's responses.
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
    pub fn streamed(self, is_streamed: bool) -> Self {
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
    /// [`Rejected`](ModelErrorKind::Rejected): the conversation or the options are nested deeper than
    /// 100 levels.
    pub fn begin_conversation(
        &self,
        conversation: ProviderConversation,
    ) -> Result<ChatState, ModelError> {
        check_depth("messages", &conversation.messages)?;
        check_depth("system", &conversation.system)?;
        check_depth("extra", self.options.extra.values())?;
        Ok(ChatState::new(self.model.provider(), conversation))
    }

    /// Adds messages to an answered chat, such as the user's next message, and resets the counters
    /// of the limits on tool calls.
    ///
    /// # Errors
    /// [`Rejected`](ModelErrorKind::Rejected): a message is invalid or nested too deeply; the chat
    /// belongs to another provider; calls have no results yet; or a message is a system message,
    /// for a provider that takes the system prompt outside the messages and so only at the
    /// beginning of the chat.
    pub fn add(&self, state: &mut ChatState, messages: &[Value]) -> Result<(), ModelError> {
        self.check_provider(state)?;
        if state.round.is_some() {
            return Err(rejection(open_calls_message(&state.waiting())));
        }
        let ProviderConversation { system, messages } = self.model.conversation(messages)?;
        if system.is_some() {
            return Err(rejection(
                "a system message is only allowed at the beginning of the chat",
            ));
        }
        check_depth("messages", &messages)?;
        state.round_at = state.conversation.messages.len();
        state.conversation.messages.extend(messages);
        state.rounds = 0;
        state.tool_calls = 0;
        state.final_response = None;
        Ok(())
    }

    /// Continues a chat until the model responds with text or calls wait for approval.
    ///
    /// A call that waited runs again and names its approval in [`CallContext::approval`]. The
    /// caller sets other decisions, such as [`CallContext::approved`], in `context`. For an
    /// answered chat, the method returns the same response again.
    ///
    /// A later run can always continue from the state, also after an error and after this future
    /// was dropped: no call starts twice.
    ///
    /// # Errors
    /// [`ChatError`]. A failed tool call is not an error: the model receives the failure as the
    /// result of the call.
    pub async fn run(
        &self,
        state: &mut ChatState,
        context: &CallContext,
        listener: &mut dyn ChatListener,
    ) -> Result<ChatEnd, ChatError> {
        let deadline = std::time::Instant::now() + self.limits.timeout;
        self.run_until(state, context, deadline, listener).await
    }

    /// Continues a chat like [`run`](Self::run), until `deadline` instead of for the
    /// [timeout](ChatLimits::timeout) of the chat's limits.
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
        let deadline = Instant::from_std(deadline);
        if let Some(round) = &mut state.round {
            rounds::end_interrupted_calls(round, listener);
        }
        native::revoke_sent_permits(state, listener);
        loop {
            if let Some(response) = &state.final_response {
                return Ok(ChatEnd::Answered(response.clone()));
            }
            if state.round.is_some() {
                self.run_round(state, context, deadline, listener).await?;
                let waiting = state.waiting();
                if !waiting.is_empty() {
                    return Ok(ChatEnd::AwaitingApproval(waiting));
                }
                if state.round.is_some() {
                    return Err(timeout_error().into());
                }
            }
            self.send_turn(state, deadline, listener).await?;
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
            listener.on_event(ChatEvent::Status(LIMIT_REACHED.to_owned()));
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
        let mut native = self
            .native
            .read(provider, &response.body)
            .map_err(ModelError::from)?;
        reported_calls.report_new(&native, listener);
        state.tool_calls += native.ended.len();
        let permission_requests = if self.native.is_empty() {
            Vec::new()
        } else {
            std::mem::take(&mut native.permission_requests)
        };
        if calls.is_empty() && permission_requests.is_empty() && text.is_empty() {
            check_finish(provider, &response.finish)?;
        }
        let round_at = state.conversation.messages.len();
        state.conversation.messages.extend(messages);
        state.permitted = None;
        let may_call = !calls.is_empty() && !tools.is_empty();
        if may_call || (!permission_requests.is_empty() && limit_reached.is_none()) {
            state.round_at = round_at;
            state.rounds += 1;
            let max_calls = self.limits.max_calls_per_answer;
            let round = rounds::begin_round(
                calls,
                permission_requests,
                &response.finish,
                max_calls,
                listener,
            );
            // Native calls are counted when the provider has made them.
            state.tool_calls += round.0.iter().filter(|call| !call.is_native).count();
            state.round = Some(round);
            return Ok(());
        }
        let is_paused = response.finish.is_pause() && calls.is_empty();
        if is_paused && state.rounds < self.limits.max_tool_rounds {
            // A pause of the provider's own tools counts as a round, so that the loop ends.
            state.rounds += 1;
            return save(state, deadline, listener).await;
        }
        // Providers require a result for every call in a conversation, so these calls get an error.
        let rejections: Vec<_> = calls.iter().map(rounds::reject_call).collect();
        let results = format_results(provider, &rejections);
        state.conversation.messages.extend(results);
        let rejections: Vec<_> = permission_requests
            .iter()
            .map(|request| rounds::reject_call(&request.call))
            .collect();
        let results = format_permits(provider, &rejections);
        state.conversation.messages.extend(results);
        let response = FinalResponse {
            text,
            finish: response.finish,
            limit_reached,
            ending: ResponseEnd::new(provider, &response.body),
        };
        state.final_response = Some(response.clone());
        save(state, deadline, listener).await?;
        listener.on_event(ChatEvent::Done(response));
        Ok(())
    }

    /// Sends one request to the model. Permits for native calls are sent with one request only,
    /// unless that request certainly had no effect.
    async fn send_with_permits(
        &self,
        state: &mut ChatState,
        tools: &[Arc<ToolDefinition>],
        deadline: Instant,
        reported_calls: &mut ReportedCalls,
        listener: &mut dyn ChatListener,
    ) -> Result<TurnResponse, ChatError> {
        let saved = match &mut state.permitted {
            Some(permitted) => {
                permitted.is_sent = true;
                save(state, deadline, listener).await
            }
            None => Ok(()),
        };
        let result = match saved {
            Ok(()) => {
                self.request_turn(state, tools, deadline, reported_calls, listener)
                    .await
            }
            Err(error) => Err(error),
        };
        if let (Err(error), Some(permitted)) = (&result, &mut state.permitted) {
            permitted.is_sent = error.may_have_acted();
        }
        result
    }

    /// Returns the limit of tool calls or tool rounds that the chat has reached, if any.
    fn limit_reached(&self, state: &ChatState) -> Option<LimitReached> {
        if self.tools.is_empty() && self.native.is_empty() {
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
        let (ours, theirs) = (self.model.provider(), state.provider());
        if ours == theirs {
            return Ok(());
        }
        Err(rejection(format!(
            "the chat is stored in the format of the provider '{theirs}', but the model uses \
            the format of '{ours}'"
        )))
    }
}

/// Accepts a response without text if the model finished without text, reached its maximum length,
/// was filtered or only paused. Any other finish is an error, so that the next run repeats the
/// request.
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
    what: &str,
    values: impl IntoIterator<Item = &'a Value>,
) -> Result<(), ModelError> {
    if values.into_iter().any(is_too_deep) {
        return Err(rejection(format!(
            "{what}: JSON must not be nested more than {MAX_DEPTH} levels deep"
        )));
    }
    Ok(())
}

/// Returns why a chat with open calls accepts no message. Names at most three of the approvals that
/// the chat waits for.
fn open_calls_message(waiting: &[WaitingCall]) -> String {
    const MAX_NAMED: usize = 3;
    if waiting.is_empty() {
        return "tool calls of the model's last response have no results yet: continue the chat \
            without a message"
            .to_owned();
    }
    let mut named: Vec<_> = waiting.iter().take(MAX_NAMED).map(approval_name).collect();
    if waiting.len() > MAX_NAMED {
        named.push(format!("{} more", waiting.len() - MAX_NAMED));
    }
    format!(
        "the chat waits for {}: continue the chat without a message after the decision",
        named.join(", ")
    )
}

fn approval_name(waiting: &WaitingCall) -> String {
    let tool = &waiting.call.name;
    match &waiting.approval_id {
        Some(id) => format!("approval '{id}' of tool '{tool}'"),
        None => format!("a decision on tool '{tool}'"),
    }
}

fn rejection(message: impl Into<String>) -> ModelError {
    ModelError::new(ModelErrorKind::Rejected, message)
}

/// Saves the state of a chat. Stops waiting when a response of the chat is due.
async fn save(
    state: &ChatState,
    deadline: Instant,
    listener: &mut dyn ChatListener,
) -> Result<(), ChatError> {
    let saved = timeout_at(deadline + RESPONSE_ALLOWANCE, listener.save_state(state))
        .await
        .unwrap_or_else(|_| {
            let message = "the chat was not stored before its deadline";
            Err(ToolFailure::new(ErrorCode::Unavailable, message))
        });
    saved.map_err(ChatError::NotSaved)
}

fn timeout_error() -> ModelError {
    ModelError::new(ModelErrorKind::Timeout, "the chat timed out")
}

impl std::fmt::Debug for ChatLoop {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ChatLoop")
            .field("provider", &self.model.provider())
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}
