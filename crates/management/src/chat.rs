//! Chats with language models that use the sidecar's tools, for all APIs that offer chats. A chat
//! is stored after each step, and can continue after an approval, after a failure of the provider
//! and in another process.

mod background;
mod chat_recorder;
mod claim;
mod clients_turn;
mod conversation;
mod error;
mod response;
mod stored_chat;

use std::sync::Arc;
use std::time::Duration;

use pillion_chat::{
    ChatEnd, ChatError, ChatLoop, ChatState, LanguageModel, ModelError, ProviderConversation,
    ProviderMembers, ResponseEnd, TurnOptions,
};
use pillion_core::compute;
use pillion_core::executor::RESPONSE_ALLOWANCE;
use pillion_core::registry::RegisteredTool;
use pillion_core::store::{ChatClaim, ChatRecord, Store, StoreError, Timestamp};
use pillion_core::tool::{ApprovalRequestOptions, CallContext, ToolCall, ToolDefinition};
use pillion_deadline::timeout_at;
use pillion_wire::{ChatResponse, ChatTranscript};
use serde_json::{Value, json};
use tokio::time::Instant;
use uuid::Uuid;

pub use background::{BackgroundTurn, begin_in_background, resume_in_background};
pub use chat_recorder::ChatEventCallback;
use chat_recorder::ChatRecorder;
use claim::Claim;
pub use clients_turn::ClientToolTurn;
pub use conversation::{ChatCall, ChatPart};
pub use error::ChatRejection;
use error::Result;
use pillion_gateway::Gateway;
use pillion_gateway::approvals::Approvals;
use pillion_gateway::events::{Event, EventBus};
use pillion_gateway::models::{Model, NativeTools};
use pillion_gateway::timestamp::format_timestamp;
use pillion_gateway::visibility::Visibility;
pub use stored_chat::ChatFailure;
use stored_chat::{ChatRetention, ChatSummaryText, StoredChat};

/// Maximum number of chats in a list.
const MAX_LISTED_CHATS: u32 = 100;

/// The caller of a chat: the user on whose behalf tools run, and the tools that the caller may see.
#[derive(Debug, Clone)]
pub struct ChatCaller {
    /// The context of the calls of the chat's tools.
    pub context: CallContext,
    /// The tools that the caller may see.
    pub visibility: Visibility,
}

impl ChatCaller {
    /// Returns this caller with the tools limited to those that the model may see. The limit also
    /// applies to calls that composed tools make.
    fn with_model(&self, model: &Model) -> Self {
        let config = Arc::clone(&model.config);
        let visibility = self.visibility.clone().for_model(config);
        let context = CallContext {
            may_use: Some(visibility.filter()),
            ..self.context.clone()
        };
        Self {
            context,
            visibility,
        }
    }
}

/// The parameters of a new chat.
#[derive(Debug)]
pub struct NewChat {
    /// The model's ID; `None` for the default model.
    pub model: Option<String>,
    /// The conversation with which the chat begins.
    pub input: ChatInput,
    /// Whether the model may use tools.
    pub may_use_tools: bool,
    /// The options for the model's responses.
    pub options: TurnOptions,
}

impl NewChat {
    /// Creates the parameters of a chat that begins with a message of the user, and with the
    /// default options. `system` is the system prompt.
    #[must_use]
    pub fn with_message(
        model: Option<&str>,
        system: Option<&str>,
        message: &str,
        may_use_tools: bool,
    ) -> Self {
        let system = system.map(|text| json!({"role": "system", "content": text}));
        let messages = system.into_iter().chain([user_message(message)]);
        Self {
            model: model.map(str::to_owned),
            input: ChatInput::Messages(messages.collect()),
            may_use_tools,
            options: TurnOptions::default(),
        }
    }
}

/// Returns a message of the user, in the format of OpenAI's chat completions.
#[must_use]
pub fn user_message(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

/// The conversation with which a chat begins.
#[derive(Debug)]
pub enum ChatInput {
    /// Messages in the format of OpenAI's chat completions.
    Messages(Vec<Value>),
    /// A conversation in the format of the model's provider.
    ProviderFormat(ProviderConversation),
}

impl ChatInput {
    fn begin(self, chat_loop: &ChatLoop) -> Result<ChatState, ModelError> {
        match self {
            Self::Messages(messages) => chat_loop.begin(&messages),
            Self::ProviderFormat(conversation) => chat_loop.begin_conversation(conversation),
        }
    }
}

/// The outcome of a chat request.
#[derive(Debug, Default)]
pub struct ChatOutcome {
    /// The state of the chat, with the calls of this request.
    pub response: ChatResponse,
    /// Calls of the client's own tools, which the client runs.
    pub calls: Vec<ToolCall>,
    /// Data of the provider that the client must send back with the results of the calls.
    pub provider_members: ProviderMembers,
    /// Whether the chat is stored and can continue.
    pub is_stored: bool,
    /// The provider's report about the end of the response.
    pub ending: ResponseEnd,
    /// The reason why the chat has failed, if it has.
    pub failure: Option<ChatFailure>,
}

/// A chat that only the current request can continue.
pub struct Chat {
    recorder: ChatRecorder,
    chat_loop: ChatLoop,
    /// The context in which the tools of the chat run.
    context: CallContext,
    /// Maximum time to wait for approvals.
    max_approval_wait: Duration,
    approvals: Approvals,
    events: Arc<EventBus>,
    /// The deadline of the chat, which is extended by the time that the chat waits for approvals.
    deadline: Instant,
}

impl Chat {
    fn new(
        gateway: &Gateway,
        caller: &ChatCaller,
        recorder: ChatRecorder,
        chat_loop: ChatLoop,
        deadline: Instant,
    ) -> Self {
        let approval = &caller.context.approval;
        let context = CallContext {
            // Calls return at once instead of waiting for approvals, so that the chat is stored
            // before the chat waits for approvals.
            approval: ApprovalRequestOptions {
                wait: Duration::ZERO,
                ..approval.clone()
            },
            caller: Some("chat".to_owned()),
            channel: recorder.stored_chat.channel.clone(),
            // No memory is reserved for responses, because the results go to the model and not to
            // an HTTP client.
            result_memory: None,
            ..caller.context.clone()
        };
        Self {
            recorder,
            chat_loop,
            context,
            max_approval_wait: approval.wait.min(gateway.approvals().section().max_wait),
            approvals: gateway.approvals().clone(),
            events: Arc::clone(&gateway.process().events),
            deadline,
        }
    }

    /// Starts and stores a chat, without calling the model.
    ///
    /// # Errors
    /// There is no store or no such model, the model is misconfigured, the messages are invalid, or
    /// the chat cannot be stored.
    pub async fn begin(gateway: &Gateway, caller: &ChatCaller, new_chat: NewChat) -> Result<Self> {
        let deadline = Instant::now() + gateway.models().chat().timeout;
        let begin_future = async {
            let mut chat = Self::begin_stateless(gateway, caller, new_chat).await?;
            chat.recorder.stored_chat.retention = ChatRetention::Always;
            chat.recorder.save().await?;
            Ok(chat)
        };
        run_before_deadline(deadline, Box::pin(begin_future)).await
    }

    /// Starts a chat that is stored only between the model's first tool call and the model's final
    /// response, because the client itself stores the conversation.
    ///
    /// # Errors
    /// There is no store or no such model, the model is misconfigured, or the messages are invalid.
    pub async fn begin_stateless(
        gateway: &Gateway,
        caller: &ChatCaller,
        new_chat: NewChat,
    ) -> Result<Self> {
        let deadline = Instant::now() + gateway.models().chat().timeout;
        let store = gateway.store().ok_or(ChatRejection::NoStore)?;
        let model = find_model(gateway, new_chat.model.as_deref())?;
        let options = new_chat.options.clone();
        let caller = &caller.with_model(model);
        let chat_loop = build_loop(
            gateway,
            caller,
            model,
            new_chat.may_use_tools,
            new_chat.options,
        )
        .await?;
        let stored_chat = StoredChat {
            model: model.config.id.clone(),
            may_use_tools: new_chat.may_use_tools,
            channel: caller.context.channel.clone(),
            options,
            retention: ChatRetention::UntilAnswered,
            state: new_chat.input.begin(&chat_loop)?,
            failure: None,
            calls: Vec::new(),
        };
        let now = Timestamp::now();
        let record = ChatRecord {
            id: Uuid::now_v7().to_string(),
            owner: format_owner(&caller.context),
            json: String::new(),
            summary: String::new(),
            revision: 0,
            created_at: now,
            updated_at: now,
            claim: None,
        };
        let claim = Claim::new(
            &store,
            &record.owner,
            &record.id,
            &gateway.process().call_tasks,
        );
        let recorder = ChatRecorder::new(store, record, stored_chat, claim);
        Ok(Self::new(gateway, caller, recorder, chat_loop, deadline))
    }

    /// Continues a chat, with the user's next messages, if any.
    ///
    /// # Errors
    /// There is no such chat, another request continues the chat, the chat's model is not
    /// configured, a call has no result yet and there are messages, or the chat cannot be stored.
    pub async fn resume(
        gateway: &Gateway,
        caller: &ChatCaller,
        id: &str,
        messages: &[Value],
    ) -> Result<Self> {
        let deadline = Instant::now() + gateway.models().chat().timeout;
        let resume_future = async {
            let store = gateway.store().ok_or(ChatRejection::NoStore)?;
            let claim = claim_chat(gateway, &store, &caller.context, id).await?;
            let (record, mut stored_chat) = find(&*store, &caller.context, id).await?;
            stored_chat.failure = None;
            let model = find_model(gateway, Some(&stored_chat.model))?;
            let options = stored_chat.options.clone();
            let caller = &caller.with_model(model);
            let chat_loop =
                build_loop(gateway, caller, model, stored_chat.may_use_tools, options).await?;
            let mut recorder = ChatRecorder::new(store, record, stored_chat, claim);
            if !messages.is_empty() {
                chat_loop.add(&mut recorder.stored_chat.state, messages)?;
                // The chat is stored before the model runs, so that the user's messages are not
                // lost if the model fails.
                recorder.save().await?;
            }
            Ok(Self::new(gateway, caller, recorder, chat_loop, deadline))
        };
        run_before_deadline(deadline, Box::pin(resume_future)).await
    }

    /// Returns the chat's ID.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.recorder.record.id
    }

    /// Returns the ID of the chat's model.
    #[must_use]
    pub fn model(&self) -> &str {
        &self.recorder.stored_chat.model
    }

    /// Runs the chat until the model gives its final response, calls wait for approval, or an error
    /// occurs. Sends events to `listener`, including parts of the model's responses.
    pub async fn run(self, listener: Option<ChatEventCallback>) -> ChatOutcome {
        let (context, mut deadline) = (self.context, self.deadline);
        let chat_loop = self.chat_loop.with_streaming(listener.is_some());
        let mut recorder = self.recorder;
        recorder.listener = listener;
        let mut state = recorder.stored_chat.state.clone();
        let approval_deadline = Instant::now() + self.max_approval_wait;
        loop {
            let run = chat_loop.run_until(&mut state, &context, deadline.into(), &mut recorder);
            let outcome = run.await;
            if let Ok(ChatEnd::AwaitingApproval(waiting_calls)) = &outcome {
                let ids: Vec<_> = waiting_calls
                    .iter()
                    .filter_map(|call| call.approval_id.as_deref())
                    .collect();
                let principal = context.principal.as_deref();
                let wait_started_at = Instant::now();
                if self
                    .approvals
                    .wait_for_any(principal, &ids, approval_deadline)
                    .await
                {
                    // Time spent waiting for approvals does not count toward the chat's deadline.
                    deadline += wait_started_at.elapsed();
                    continue;
                }
            }
            // The store has until `response_deadline` to store the outcome. This time begins at the
            // deadline of the chat, or when the chat ends, if that is later. If the store failed,
            // the time always begins at the deadline, because the store may have caused the delay.
            let ended_at = match outcome {
                Err(ChatError::NotSaved(_)) => deadline,
                _ => deadline.max(Instant::now()),
            };
            let response_deadline = ended_at + RESPONSE_ALLOWANCE;
            let chat_outcome = recorder.end(state, outcome, response_deadline).await;
            if chat_outcome.is_stored {
                self.events.publish(&Event::ChatStopped {
                    chat: &chat_outcome.response.id,
                    model: &chat_outcome.response.model,
                    status: &chat_outcome.response.status,
                    context: &context,
                });
            }
            return chat_outcome;
        }
    }
}

/// A chat in a list of chats.
#[derive(Debug)]
pub struct ListedChat {
    /// The state of the chat. The model's response is truncated, and long arguments are absent.
    pub chat: ChatResponse,
    /// The beginning of the user's first message, if known.
    pub title: Option<String>,
    /// The time at which the chat last continued, in RFC 3339, if known.
    pub updated_at: Option<String>,
}

/// Returns the caller's chats, most recently updated first.
///
/// # Errors
/// There is no store, or the store cannot be read.
pub async fn list(gateway: &Gateway, context: &CallContext) -> Result<Vec<ListedChat>> {
    let store = gateway.store().ok_or(ChatRejection::NoStore)?;
    let owner = format_owner(context);
    let records = store.chats(&owner, MAX_LISTED_CHATS).await?;
    let mut chats = Vec::with_capacity(records.len());
    for record in records {
        let summary = match record.summary.as_str() {
            // A chat without a summary was stored by a version of Pillion that had no summaries.
            "" => match find(&*store, context, &record.id).await {
                Ok((full_record, stored_chat)) => {
                    stored_chat.summarize(&full_record.id, full_record.updated_at)
                }
                // Skips a chat that was removed in the meantime, or whose record is unreadable;
                // `find` has logged unreadable records.
                Err(_) => continue,
            },
            summary => match ChatSummaryText::parse(summary) {
                Ok(summary) => summary,
                Err(error) => {
                    tracing::warn!(
                        chat = record.id, %error,
                        "Cannot list a stored chat: its summary is invalid"
                    );
                    continue;
                }
            },
        };
        let shortened = response::shorten(summary.response);
        chats.push(ListedChat {
            chat: with_current_status(shortened, record.claim.as_ref()),
            title: summary.title,
            updated_at: summary.updated_at,
        });
    }
    Ok(chats)
}

/// A chat with its conversation in one form for all providers.
#[derive(Debug)]
pub struct ChatView {
    /// The state of the chat.
    pub chat: ChatResponse,
    /// The beginning of the user's first message, if there is one.
    pub title: Option<String>,
    /// Whether the model may use tools.
    pub may_use_tools: bool,
    /// The time at which the chat began, in RFC 3339.
    pub created_at: String,
    /// The time at which the chat last continued, in RFC 3339.
    pub updated_at: String,
    /// The parts of the conversation, oldest first. New parts are only added at the end.
    pub parts: Vec<ChatPart>,
}

/// Returns the caller's chat with this ID, with its conversation in one form for all providers.
///
/// # Errors
/// There is no such chat, the chat is unreadable, or the store cannot be read.
pub async fn view(gateway: &Gateway, context: &CallContext, id: &str) -> Result<ChatView> {
    let store = gateway.store().ok_or(ChatRejection::NoStore)?;
    let (record, stored_chat) = find(&*store, context, id).await?;
    let (account, bytes) = (record.owner.clone(), record.json.len());
    let build = move || build_view(&record, &stored_chat);
    Ok(compute::run(&account, bytes, build).await)
}

fn build_view(record: &ChatRecord, stored_chat: &StoredChat) -> ChatView {
    let response = response::from_stored(&record.id, stored_chat, Vec::new());
    let is_running = claim::is_running(record.claim.as_ref());
    ChatView {
        chat: with_current_status(response, record.claim.as_ref()),
        title: conversation::find_title(&stored_chat.state),
        may_use_tools: stored_chat.may_use_tools,
        created_at: format_timestamp(record.created_at),
        updated_at: format_timestamp(record.updated_at),
        parts: conversation::read(&stored_chat.state, &stored_chat.calls, is_running),
    }
}

/// Returns the caller's chat with this ID, including its messages.
///
/// # Errors
/// There is no such chat, the chat is unreadable, or the store cannot be read.
pub async fn show(gateway: &Gateway, context: &CallContext, id: &str) -> Result<ChatTranscript> {
    let store = gateway.store().ok_or(ChatRejection::NoStore)?;
    let (record, stored_chat) = find(&*store, context, id).await?;
    let response = response::from_stored(&record.id, &stored_chat, Vec::new());
    Ok(ChatTranscript {
        success: true,
        chat: with_current_status(response, record.claim.as_ref()),
        created_at: format_timestamp(record.created_at),
        updated_at: format_timestamp(record.updated_at),
        system: stored_chat.state.system().cloned(),
        messages: stored_chat.state.messages().to_vec(),
    })
}

/// Deletes the caller's chat with this ID.
///
/// # Errors
/// [`ChatRejection::UnknownChat`]; [`ChatRejection::Busy`] while another request continues the
/// chat; the store cannot be written.
pub async fn forget(gateway: &Gateway, context: &CallContext, id: &str) -> Result<()> {
    let store = gateway.store().ok_or(ChatRejection::NoStore)?;
    let _claim = claim_chat(gateway, &store, context, id).await?;
    match store.remove_chat(&format_owner(context), id).await {
        Err(error) if error.is_not_found() => {
            let id = id.to_owned();
            Err(ChatRejection::UnknownChat { id })
        }
        outcome => Ok(outcome?),
    }
}

/// Returns the model with this ID, or the default model if `id` is `None`.
///
/// # Errors
/// [`ChatRejection::UnknownModel`]; [`ChatRejection::NoModel`] if there is no default model.
pub fn find_model<'a>(gateway: &'a Gateway, id: Option<&str>) -> Result<&'a Model> {
    let models = gateway.models();
    match id {
        None => models.default().ok_or(ChatRejection::NoModel),
        Some(id) => {
            let unknown_model = || ChatRejection::UnknownModel { id: id.to_owned() };
            models.get(id).ok_or_else(unknown_model)
        }
    }
}

/// Returns the client of a model's provider.
///
/// # Errors
/// [`ChatRejection::Model`] if the model is misconfigured.
fn provider_client(model: &Model) -> Result<Arc<dyn LanguageModel>> {
    let client = model.client.as_ref().map(Arc::clone);
    client.map_err(|error| ChatRejection::Model((**error).clone()))
}

/// Returns the options of a request, completed with the model's configuration.
fn complete_options(model: &Model, options: TurnOptions) -> TurnOptions {
    let configured_max = model.max_output_tokens.map(std::num::NonZeroU64::get);
    TurnOptions {
        max_output_tokens: options.max_output_tokens.or(configured_max),
        ..options
    }
}

/// Runs `work`, which waits for the store, until the deadline of the chat. Returns an error if
/// `work` takes longer.
async fn run_before_deadline<T>(
    deadline: Instant,
    work: impl Future<Output = Result<T>>,
) -> Result<T> {
    timeout_at(deadline, work).await.unwrap_or_else(|_| {
        let message = "the store did not respond before the deadline of the chat";
        Err(StoreError::unavailable(message).into())
    })
}

/// Creates the chat loop with the tools that the model and the caller may see.
async fn build_loop(
    gateway: &Gateway,
    caller: &ChatCaller,
    model: &Model,
    may_use_tools: bool,
    options: TurnOptions,
) -> Result<ChatLoop> {
    let client = provider_client(model)?;
    let mut tools = Vec::new();
    let mut native_tools = NativeTools::default();
    let mut executor = gateway.executor().clone();
    if may_use_tools && model.config.tools.function_calling {
        // Servers get half of the chat's timeout to list their tools, because the model needs time
        // as well. Servers that take longer are skipped.
        let list_timeout = gateway.models().chat().timeout / 2;
        let offered_tools = gateway
            .list_visible_tools_with_timeout(list_timeout, &caller.context, &caller.visibility)
            .await;
        executor = executor.with_caller_tools(Arc::clone(&offered_tools.caller_tools.tools));
        let to_definition = |tool: &Arc<RegisteredTool>| -> Arc<ToolDefinition> {
            Arc::new(tool.definition().clone())
        };
        native_tools = NativeTools::for_model(model, &executor, &offered_tools.tools);
        let local_tools = offered_tools
            .tools
            .iter()
            .filter(|tool| !native_tools.has(tool.name()));
        tools = local_tools.map(to_definition).collect();
    }
    let (native_servers, runner) = native_tools.into_parts(executor);
    Ok(ChatLoop::new(client, runner)
        .with_tools(tools)
        .with_native_servers(native_servers)
        .with_options(complete_options(model, options))
        .with_limits(gateway.models().limits(model)))
}

/// Returns the response with the status `running` if a request is running the chat. A chat that
/// waits for approvals keeps its status.
fn with_current_status(response: ChatResponse, claim: Option<&ChatClaim>) -> ChatResponse {
    if claim::is_running(claim) {
        response::with_running_status(response)
    } else {
        response
    }
}

/// Gives the current request the exclusive right to continue the caller's chat with this ID.
async fn claim_chat(
    gateway: &Gateway,
    store: &Arc<dyn Store>,
    context: &CallContext,
    id: &str,
) -> Result<Claim> {
    let owner = format_owner(context);
    if let Some(claim) = Claim::take(store, &owner, id, &gateway.process().call_tasks).await? {
        return Ok(claim);
    }
    let stored_record = store.find_chat(&owner, id).await?;
    let id = id.to_owned();
    Err(match stored_record {
        Some(_) => ChatRejection::Busy { id },
        None => ChatRejection::UnknownChat { id },
    })
}

/// Returns the caller's chat with this ID.
async fn find(
    store: &dyn Store,
    context: &CallContext,
    id: &str,
) -> Result<(ChatRecord, StoredChat)> {
    let stored_record = store.find_chat(&format_owner(context), id).await?;
    let record = stored_record.ok_or_else(|| ChatRejection::UnknownChat { id: id.to_owned() })?;
    let stored_chat = serde_json::from_str(&record.json).map_err(|error| {
        tracing::warn!(chat = id, %error, "Cannot read a stored chat");
        ChatRejection::Unreadable { id: id.to_owned() }
    })?;
    Ok((record, stored_chat))
}

/// Returns the owner under which the store keeps the caller's chats: the principal together with
/// the user.
fn format_owner(context: &CallContext) -> String {
    json!([context.principal, context.user]).to_string()
}
