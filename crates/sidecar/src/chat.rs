//! Chats with language models that use the sidecar's tools, for all APIs that offer chats. A chat
//! is stored after each step, and can continue after an approval, after a failure of the provider
//! and in another process.

mod chat_recorder;
mod claim;
mod clients_turn;
mod error;
mod response;
mod stored_chat;

use std::sync::Arc;
use std::time::Duration;

use pillion_chat::{
    ChatEnd, ChatError, ChatLoop, ChatState, LanguageModel, ModelError, ProviderConversation,
    ProviderMembers, ResponseEnd, TurnOptions,
};
use pillion_core::executor::RESPONSE_ALLOWANCE;
use pillion_core::registry::RegisteredTool;
use pillion_core::store::{ChatClaim, ChatRecord, Store, StoreError, Timestamp};
use pillion_core::tool::{ApprovalRequestOptions, CallContext, ToolCall, ToolDefinition};
use pillion_deadline::timeout_at;
use pillion_wire::{ChatResponse, ChatTranscript};
use serde_json::{Value, json};
use tokio::time::Instant;
use uuid::Uuid;

use crate::app::App;
use chat_recorder::ChatRecorder;
pub(crate) use chat_recorder::Listener;
use claim::Claim;
pub(crate) use clients_turn::ClientToolTurn;
pub(crate) use error::ChatRejection;
use pillion_gateway::approvals::Approvals;
use pillion_gateway::models::{Model, NativeTools};
use pillion_gateway::timestamp::format_timestamp;
use pillion_gateway::visibility::Visibility;
pub(crate) use stored_chat::ChatFailure;
use stored_chat::{ChatRetention, StoredChat};

/// Maximum number of chats in a list.
const MAX_LISTED: u32 = 100;

/// The caller of a chat: the user for whom tools run, and the tools that the user may see.
#[derive(Debug, Clone)]
pub(crate) struct ChatCaller {
    pub(crate) context: CallContext,
    pub(crate) visibility: Visibility,
}

impl ChatCaller {
    /// Restricts the caller to what the model may see, including calls by composed tools.
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
pub(crate) struct NewChat {
    /// The model's name; `None` for the default model.
    pub(crate) model: Option<String>,
    pub(crate) input: ChatInput,
    /// Whether the model may use tools.
    pub(crate) tools: bool,
    pub(crate) options: TurnOptions,
}

/// The conversation so far.
#[derive(Debug)]
pub(crate) enum ChatInput {
    /// Messages in the format of OpenAI's chat completions.
    Messages(Vec<Value>),
    /// A conversation in the format of the model's provider.
    Native(ProviderConversation),
}

impl ChatInput {
    fn begin(self, chat_loop: &ChatLoop) -> Result<ChatState, ModelError> {
        match self {
            Self::Messages(messages) => chat_loop.begin(&messages),
            Self::Native(conversation) => chat_loop.begin_conversation(conversation),
        }
    }
}

/// The outcome of a chat request.
#[derive(Debug, Default)]
pub(crate) struct ChatOutcome {
    pub(crate) response: ChatResponse,
    /// Calls of the client's own tools, which the client runs.
    pub(crate) calls: Vec<ToolCall>,
    /// Data of the provider that the client must send back with the results of the calls.
    pub(crate) provider_members: ProviderMembers,
    /// Whether the chat is stored and can continue.
    pub(crate) is_stored: bool,
    /// What the provider reports about the end of the response.
    pub(crate) ending: ResponseEnd,
    /// Why the chat has failed, if it has.
    pub(crate) failure: Option<ChatFailure>,
}

/// A chat that only this request may continue.
pub(crate) struct Chat {
    recorder: ChatRecorder,
    chat_loop: ChatLoop,
    /// The context in which the tools of the chat run.
    context: CallContext,
    /// Maximum time to wait for approvals.
    wait: Duration,
    approvals: Approvals,
    /// When the chat ends, unless it waits for approvals.
    deadline: Instant,
}

impl Chat {
    fn new(
        app: &App,
        caller: &ChatCaller,
        recorder: ChatRecorder,
        chat_loop: ChatLoop,
        deadline: Instant,
    ) -> Self {
        let approval = &caller.context.approval;
        let context = CallContext {
            // Calls do not wait for approvals: the chat is stored first, and then waits itself.
            approval: ApprovalRequestOptions {
                wait: Duration::ZERO,
                ..approval.clone()
            },
            caller: Some("chat".to_owned()),
            channel: recorder.stored_chat.channel.clone(),
            // The results go to the model, not to an HTTP client, and reserve no response bytes.
            result_memory: None,
            ..caller.context.clone()
        };
        Self {
            recorder,
            chat_loop,
            context,
            wait: approval.wait.min(app.approvals().section().max_wait),
            approvals: app.approvals().clone(),
            deadline,
        }
    }

    /// Starts and stores a chat, without calling the model.
    pub(crate) async fn begin(
        app: &App,
        caller: &ChatCaller,
        new_chat: NewChat,
    ) -> Result<Self, ChatRejection> {
        let deadline = Instant::now() + app.models().chat().timeout;
        let stored = async {
            let mut chat = Self::begin_stateless(app, caller, new_chat).await?;
            chat.recorder.stored_chat.stays = ChatRetention::Always;
            chat.recorder.save().await?;
            Ok(chat)
        };
        before_deadline(deadline, Box::pin(stored)).await
    }

    /// Starts a chat that is stored only while it is unanswered after tool calls, because the
    /// client itself stores the conversation.
    pub(crate) async fn begin_stateless(
        app: &App,
        caller: &ChatCaller,
        new_chat: NewChat,
    ) -> Result<Self, ChatRejection> {
        let deadline = Instant::now() + app.models().chat().timeout;
        let store = app.store().ok_or(ChatRejection::NoStore)?;
        let model = model_of(app, new_chat.model.as_deref())?;
        let options = new_chat.options.clone();
        let caller = &caller.with_model(model);
        let chat_loop = build_loop(app, caller, model, new_chat.tools, new_chat.options).await?;
        let stored_chat = StoredChat {
            model: model.config.id.clone(),
            tools: new_chat.tools,
            channel: caller.context.channel.clone(),
            options,
            stays: ChatRetention::UntilAnswered,
            state: new_chat.input.begin(&chat_loop)?,
            failure: None,
        };
        let now = Timestamp::now();
        let record = ChatRecord {
            id: Uuid::now_v7().to_string(),
            owner: owner_of(&caller.context),
            json: String::new(),
            summary: String::new(),
            revision: 0,
            created_at: now,
            updated_at: now,
            claim: None,
        };
        let claim = Claim::new(&store, &record.owner, &record.id, &app.process().calls);
        let recorder = ChatRecorder::new(store, record, stored_chat, claim);
        Ok(Self::new(app, caller, recorder, chat_loop, deadline))
    }

    /// Continues a chat, with the user's next messages, if any.
    pub(crate) async fn resume(
        app: &App,
        caller: &ChatCaller,
        id: &str,
        messages: &[Value],
    ) -> Result<Self, ChatRejection> {
        let deadline = Instant::now() + app.models().chat().timeout;
        let resumed = async {
            let store = app.store().ok_or(ChatRejection::NoStore)?;
            let claim = take(app, &store, &caller.context, id).await?;
            let (record, mut stored_chat) = find(&*store, &caller.context, id).await?;
            stored_chat.failure = None;
            let model = model_of(app, Some(&stored_chat.model))?;
            let options = stored_chat.options.clone();
            let caller = &caller.with_model(model);
            let chat_loop = build_loop(app, caller, model, stored_chat.tools, options).await?;
            let mut recorder = ChatRecorder::new(store, record, stored_chat, claim);
            if !messages.is_empty() {
                chat_loop.add(&mut recorder.stored_chat.state, messages)?;
                // Stored first, so that the user's messages are not lost if the model fails.
                recorder.save().await?;
            }
            Ok(Self::new(app, caller, recorder, chat_loop, deadline))
        };
        before_deadline(deadline, Box::pin(resumed)).await
    }

    pub(crate) fn id(&self) -> &str {
        &self.recorder.record.id
    }

    pub(crate) fn model(&self) -> &str {
        &self.recorder.stored_chat.model
    }

    /// Runs the chat until the model has answered, calls wait for approval, or an error occurs.
    /// Sends events to `listener`, including parts of the answers.
    pub(crate) async fn run(self, listener: Option<Listener>) -> ChatOutcome {
        let (context, mut deadline) = (self.context, self.deadline);
        let chat_loop = self.chat_loop.streamed(listener.is_some());
        let mut recorder = self.recorder;
        recorder.listener = listener;
        let mut state = recorder.stored_chat.state.clone();
        let until = Instant::now() + self.wait;
        loop {
            let run = chat_loop.run_until(&mut state, &context, deadline.into(), &mut recorder);
            let outcome = run.await;
            if let Ok(ChatEnd::AwaitingApproval(waiting)) = &outcome {
                let ids: Vec<_> = waiting
                    .iter()
                    .filter_map(|call| call.approval_id.as_deref())
                    .collect();
                let principal = context.principal.as_deref();
                let began = Instant::now();
                if self.approvals.wait_for_any(principal, &ids, until).await {
                    // Time spent waiting for approvals does not count toward the chat's deadline.
                    deadline += began.elapsed();
                    continue;
                }
            }
            // A store that failed may have used all of the time, and gets no additional time.
            let ended = match outcome {
                Err(ChatError::NotSaved(_)) => deadline,
                _ => deadline.max(Instant::now()),
            };
            let respond_by = ended + RESPONSE_ALLOWANCE;
            return recorder.end(state, outcome, respond_by).await;
        }
    }
}

/// Returns the caller's chats, most recently updated first.
pub(crate) async fn list(
    app: &App,
    context: &CallContext,
) -> Result<Vec<ChatResponse>, ChatRejection> {
    let store = app.store().ok_or(ChatRejection::NoStore)?;
    let listed = store.chats(&owner_of(context), MAX_LISTED).await?;
    let mut chats = Vec::with_capacity(listed.len());
    for chat in listed {
        let response = match chat.summary.as_str() {
            // The chat was stored by a version without summaries.
            "" => match find(&*store, context, &chat.id).await {
                Ok((record, stored_chat)) => {
                    response::from_stored(&record.id, &stored_chat, Vec::new())
                }
                // The chat was removed in the meantime, or is unreadable, which was logged.
                Err(_) => continue,
            },
            summary => match serde_json::from_str(summary) {
                Ok(response) => response,
                Err(error) => {
                    tracing::warn!(
                        chat = chat.id, %error,
                        "Cannot list a stored chat: its summary is invalid"
                    );
                    continue;
                }
            },
        };
        let shortened = response::listed(response);
        chats.push(with_current_status(shortened, chat.claim.as_ref()));
    }
    Ok(chats)
}

/// Returns the caller's chat with this id, including its messages.
pub(crate) async fn show(
    app: &App,
    context: &CallContext,
    id: &str,
) -> Result<ChatTranscript, ChatRejection> {
    let store = app.store().ok_or(ChatRejection::NoStore)?;
    let (record, stored_chat) = find(&*store, context, id).await?;
    Ok(ChatTranscript {
        success: true,
        chat: with_current_status(
            response::from_stored(&record.id, &stored_chat, Vec::new()),
            record.claim.as_ref(),
        ),
        created_at: format_timestamp(record.created_at),
        updated_at: format_timestamp(record.updated_at),
        system: stored_chat.state.system().cloned(),
        messages: stored_chat.state.messages().to_vec(),
    })
}

/// Deletes the caller's chat with this id.
///
/// # Errors
/// [`ChatRejection::Unknown`]; [`ChatRejection::Busy`] while another request continues the chat.
pub(crate) async fn forget(
    app: &App,
    context: &CallContext,
    id: &str,
) -> Result<(), ChatRejection> {
    let store = app.store().ok_or(ChatRejection::NoStore)?;
    let _claim = take(app, &store, context, id).await?;
    match store.remove_chat(&owner_of(context), id).await {
        Err(error) if error.is_not_found() => Err(ChatRejection::Unknown),
        removed => Ok(removed?),
    }
}

/// Returns the model with this name, or the default model.
pub(crate) fn model_of<'a>(app: &'a App, id: Option<&str>) -> Result<&'a Model, ChatRejection> {
    let models = app.models();
    match id {
        None => models.default().ok_or(ChatRejection::NoModel),
        Some(id) => {
            let unknown = || ChatRejection::UnknownModel { id: id.to_owned() };
            models.get(id).ok_or_else(unknown)
        }
    }
}

/// Returns the client of a model's provider.
///
/// # Errors
/// [`ChatRejection::Model`] if the model is misconfigured.
fn client_of(model: &Model) -> Result<Arc<dyn LanguageModel>, ChatRejection> {
    let client = model.client.as_ref().map(Arc::clone);
    client.map_err(|error| ChatRejection::Model((**error).clone()))
}

/// Returns the options of a request, completed with the model's configuration.
fn options_of(model: &Model, options: TurnOptions) -> TurnOptions {
    let configured = model.max_output_tokens.map(std::num::NonZeroU64::get);
    TurnOptions {
        max_output_tokens: options.max_output_tokens.or(configured),
        ..options
    }
}

/// Runs `work`, which waits for the store, up to the deadline of the chat.
async fn before_deadline<T>(
    deadline: Instant,
    work: impl Future<Output = Result<T, ChatRejection>>,
) -> Result<T, ChatRejection> {
    timeout_at(deadline, work).await.unwrap_or_else(|_| {
        let message = "the store did not respond before the deadline of the chat";
        Err(StoreError::unavailable(message).into())
    })
}

/// Creates the chat loop with the tools that the model and the caller may see.
async fn build_loop(
    app: &App,
    caller: &ChatCaller,
    model: &Model,
    with_tools: bool,
    options: TurnOptions,
) -> Result<ChatLoop, ChatRejection> {
    let client = client_of(model)?;
    let mut tools = Vec::new();
    let mut native = NativeTools::default();
    let mut executor = app.executor().clone();
    if with_tools && model.config.tools.function_calling {
        // The model needs time as well, so servers that take longer are skipped.
        let limit = app.models().chat().timeout / 2;
        let offered = app
            .tools_within(limit, &caller.context, &caller.visibility)
            .await;
        executor = executor.with_caller_tools(Arc::clone(&offered.own.tools));
        let definition = |tool: &Arc<RegisteredTool>| -> Arc<ToolDefinition> {
            Arc::new(tool.definition().clone())
        };
        native = NativeTools::for_model(model, &executor, &offered.tools);
        let run_here = offered.tools.iter().filter(|tool| !native.has(tool.name()));
        tools = run_here.map(definition).collect();
    }
    let (native_servers, runner) = native.into_parts(executor);
    Ok(ChatLoop::new(client, runner)
        .with_tools(tools)
        .with_native_servers(native_servers)
        .with_options(options_of(model, options))
        .with_limits(app.models().limits(model)))
}

/// Returns the response with the status of a running chat if a request holds the chat's claim.
fn with_current_status(response: ChatResponse, claim: Option<&ChatClaim>) -> ChatResponse {
    if claim::is_running(claim) {
        response::while_running(response)
    } else {
        response
    }
}

/// Claims the caller's chat with this id for the current request.
async fn take(
    app: &App,
    store: &Arc<dyn Store>,
    context: &CallContext,
    id: &str,
) -> Result<Claim, ChatRejection> {
    let owner = owner_of(context);
    if let Some(claim) = Claim::take(store, &owner, id, &app.process().calls).await? {
        return Ok(claim);
    }
    Err(match store.chat(&owner, id).await? {
        Some(_) => ChatRejection::Busy,
        None => ChatRejection::Unknown,
    })
}

/// Returns the caller's chat with this id.
async fn find(
    store: &dyn Store,
    context: &CallContext,
    id: &str,
) -> Result<(ChatRecord, StoredChat), ChatRejection> {
    let found = store.chat(&owner_of(context), id).await?;
    let record = found.ok_or(ChatRejection::Unknown)?;
    let stored_chat = serde_json::from_str(&record.json).map_err(|error| {
        tracing::warn!(chat = id, %error, "Cannot read a stored chat");
        ChatRejection::Unreadable
    })?;
    Ok((record, stored_chat))
}

/// Returns the owner of chats: the principal together with the user.
fn owner_of(context: &CallContext) -> String {
    json!([context.principal, context.user]).to_string()
}
