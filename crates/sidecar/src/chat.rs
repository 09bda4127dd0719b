//! Chats with language models that use the sidecar's tools, for all APIs that offer chats. A chat
//! is stored after each step, and can continue after an approval, after a failure of the provider
//! and in another process.

mod answer;
mod chat_recorder;
mod claim;
mod clients_turn;
mod error;
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
use pillion_wire::{ChatAnswer, ChatTranscript};
use serde_json::{Value, json};
use tokio::time::Instant;
use uuid::Uuid;

use crate::app::App;
use chat_recorder::ChatRecorder;
pub(crate) use chat_recorder::Listener;
use claim::Claim;
pub(crate) use clients_turn::ClientToolTurn;
pub(crate) use error::ChatRefusal;
use pillion_gateway::approvals::Approvals;
use pillion_gateway::models::{Model, NativeTools};
use pillion_gateway::timestamp::format_timestamp;
use pillion_gateway::visibility::Visibility;
pub(crate) use stored_chat::Failure;
use stored_chat::{ChatRetention, StoredChat};

/// Maximum number of listed chats.
const MAX_LISTED: u32 = 100;

/// The caller of a chat: the user for whom tools run, and the visible tools.
#[derive(Debug, Clone)]
pub(crate) struct ChatCaller {
    pub(crate) context: CallContext,
    pub(crate) visibility: Visibility,
}

impl ChatCaller {
    /// Restricts the caller to what the model may see, including calls by composed tools.
    fn with_model(&self, model: &Model) -> Self {
        let visibility = self.visibility.clone();
        let visibility = visibility.for_model(Arc::clone(&model.config));
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
pub(crate) struct Beginning {
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
    AsItIs(ProviderConversation),
}

impl ChatInput {
    fn begin(self, chat_loop: &ChatLoop) -> Result<ChatState, ModelError> {
        match self {
            Self::Messages(messages) => chat_loop.begin(&messages),
            Self::AsItIs(conversation) => chat_loop.begin_conversation(conversation),
        }
    }
}

/// The outcome of a chat request.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) answer: ChatAnswer,
    /// Calls of the client's own tools, which the client runs.
    pub(crate) calls: Vec<ToolCall>,
    /// Data of the provider that the client must send back with the results of the calls.
    pub(crate) provider_members: ProviderMembers,
    /// Whether the chat is stored and can continue.
    pub(crate) is_stored: bool,
    /// The provider's information about the end of the answer.
    pub(crate) ending: ResponseEnd,
    /// Why the chat has failed, if it has.
    pub(crate) failure: Option<Failure>,
}

/// A chat that only this request may continue.
pub(crate) struct Chat {
    store: Arc<dyn Store>,
    record: ChatRecord,
    stored_chat: StoredChat,
    chat_loop: ChatLoop,
    context: CallContext,
    /// Maximum time to wait for approvals.
    wait: Duration,
    approvals: Approvals,
    claim: Claim,
    /// When the chat ends, unless it waits for approvals.
    deadline: Instant,
}

impl Chat {
    /// Starts and stores a chat, without calling the model.
    ///
    /// # Errors
    /// [`ChatRefusal`].
    pub(crate) async fn begin(
        app: &App,
        chatter: &ChatCaller,
        beginning: Beginning,
    ) -> Result<Self, ChatRefusal> {
        let deadline = Instant::now() + app.models().chat().timeout;
        let stored = Self::begin_and_store(app, chatter, beginning, deadline);
        in_time(deadline, Box::pin(stored)).await
    }

    async fn begin_and_store(
        app: &App,
        chatter: &ChatCaller,
        beginning: Beginning,
        deadline: Instant,
    ) -> Result<Self, ChatRefusal> {
        let mut chat = Self::begin_until(app, chatter, beginning, deadline).await?;
        chat.stored_chat.stays = ChatRetention::Always;
        chat.record.json = chat.stored_chat.to_json();
        chat.record.summary = chat.stored_chat.summary(&chat.record.id);
        chat.record.claim = Some(chat.claim.record());
        chat.record.revision = 1;
        chat.store.insert_chat(&chat.record).await?;
        Ok(chat)
    }

    /// Starts a chat that is stored only while it is unanswered after tool calls, because the
    /// client itself stores the conversation.
    ///
    /// # Errors
    /// [`ChatRefusal`].
    pub(crate) async fn begin_stateless(
        app: &App,
        chatter: &ChatCaller,
        beginning: Beginning,
    ) -> Result<Self, ChatRefusal> {
        let deadline = Instant::now() + app.models().chat().timeout;
        Self::begin_until(app, chatter, beginning, deadline).await
    }

    async fn begin_until(
        app: &App,
        chatter: &ChatCaller,
        beginning: Beginning,
        deadline: Instant,
    ) -> Result<Self, ChatRefusal> {
        let store = app.store().ok_or(ChatRefusal::NoStore)?;
        let model = model_of(app, beginning.model.as_deref())?;
        let options = beginning.options.clone();
        let chatter = &chatter.with_model(model);
        let chat_loop = build_loop(app, chatter, model, beginning.tools, beginning.options).await?;
        let state = beginning.input.begin(&chat_loop)?;
        let stored_chat = StoredChat {
            model: model.config.id.clone(),
            tools: beginning.tools,
            channel: chatter.context.channel.clone(),
            options,
            stays: ChatRetention::UntilAnswered,
            state,
            failure: None,
        };
        let now = Timestamp::now();
        let record = ChatRecord {
            id: Uuid::now_v7().to_string(),
            owner: owner_of(&chatter.context),
            json: String::new(),
            summary: String::new(),
            revision: 0,
            created_at: now,
            updated_at: now,
            claim: None,
        };
        let claim = Claim::new(&store, &record.owner, &record.id, &app.process().calls);
        Ok(Self {
            store,
            record,
            context: context_of(&stored_chat, chatter),
            stored_chat,
            chat_loop,
            wait: wait_of(app, &chatter.context),
            approvals: app.approvals().clone(),
            claim,
            deadline,
        })
    }

    /// Continues a chat, with the user's next messages, if any.
    ///
    /// # Errors
    /// [`ChatRefusal`].
    pub(crate) async fn resume(
        app: &App,
        chatter: &ChatCaller,
        id: &str,
        messages: &[Value],
    ) -> Result<Self, ChatRefusal> {
        let deadline = Instant::now() + app.models().chat().timeout;
        let resumed = Self::resume_until(app, chatter, id, messages, deadline);
        in_time(deadline, Box::pin(resumed)).await
    }

    async fn resume_until(
        app: &App,
        chatter: &ChatCaller,
        id: &str,
        messages: &[Value],
        deadline: Instant,
    ) -> Result<Self, ChatRefusal> {
        let store = app.store().ok_or(ChatRefusal::NoStore)?;
        let claim = take(app, &store, &chatter.context, id).await?;
        let (mut record, mut stored_chat) = find(&*store, &chatter.context, id).await?;
        stored_chat.failure = None;
        let model = model_of(app, Some(&stored_chat.model))?;
        let options = stored_chat.options.clone();
        let chatter = &chatter.with_model(model);
        let chat_loop = build_loop(app, chatter, model, stored_chat.tools, options).await?;
        if !messages.is_empty() {
            chat_loop.add(&mut stored_chat.state, messages)?;
            // Stored first, so that the user's messages are not lost if the answer fails.
            record.json = stored_chat.to_json();
            record.summary = stored_chat.summary(id);
            record.revision += 1;
            record.updated_at = Timestamp::now();
            store.replace_chat(&record).await?;
        }
        Ok(Self {
            store,
            record,
            context: context_of(&stored_chat, chatter),
            stored_chat,
            chat_loop,
            wait: wait_of(app, &chatter.context),
            approvals: app.approvals().clone(),
            claim,
            deadline,
        })
    }

    pub(crate) fn id(&self) -> &str {
        &self.record.id
    }

    pub(crate) fn model(&self) -> &str {
        &self.stored_chat.model
    }

    /// Runs the chat until the model has answered, calls wait for approval, or an error occurs.
    /// Sends events to `listener`, including parts of the answers.
    pub(crate) async fn run(self, listener: Option<Listener>) -> Ended {
        let Self {
            store,
            record,
            stored_chat,
            chat_loop,
            context,
            wait,
            approvals,
            claim,
            mut deadline,
        } = self;
        let chat_loop = chat_loop.streamed(listener.is_some());
        let mut state = stored_chat.state.clone();
        let mut keeper =
            ChatRecorder::new(Arc::clone(&store), record, stored_chat, claim, listener);
        let until = Instant::now() + wait;
        loop {
            let run = chat_loop.run_until(&mut state, &context, deadline.into(), &mut keeper);
            let outcome = run.await;
            if let Ok(ChatEnd::AwaitingApproval(waiting)) = &outcome {
                let ids = waiting.iter();
                let ids = ids.filter_map(|call| call.approval_id.as_deref());
                let principal = context.principal.as_deref();
                let began = Instant::now();
                if approvals
                    .wait_for_any(principal, &ids.collect::<Vec<_>>(), until)
                    .await
                {
                    deadline += began.elapsed();
                    continue;
                }
            }
            // A store that has kept the chat waiting until now gets no more time.
            let ended = match outcome {
                Err(ChatError::NotSaved(_)) => deadline,
                _ => deadline.max(Instant::now()),
            };
            let respond_by = ended + RESPONSE_ALLOWANCE;
            return keeper.end(state, outcome, respond_by).await;
        }
    }
}

/// Returns the caller's chats, most recently updated first.
///
/// # Errors
/// [`ChatRefusal::NoStore`], and errors of the store.
pub(crate) async fn list(app: &App, context: &CallContext) -> Result<Vec<ChatAnswer>, ChatRefusal> {
    let store = app.store().ok_or(ChatRefusal::NoStore)?;
    let listed = store.chats(&owner_of(context), MAX_LISTED).await?;
    let mut chats = Vec::with_capacity(listed.len());
    for chat in listed {
        let answer = match chat.summary.as_str() {
            // The chat was stored by a version without summaries.
            "" => match find(&*store, context, &chat.id).await {
                Ok((record, stored_chat)) => answer::of(&record.id, &stored_chat, Vec::new()),
                // The chat was removed in the meantime, or is unreadable, which was logged.
                Err(_) => continue,
            },
            summary => match serde_json::from_str(summary) {
                Ok(answer) => answer,
                Err(error) => {
                    tracing::warn!(
                        chat = chat.id, %error,
                        "Cannot list a stored chat: its summary is invalid"
                    );
                    continue;
                }
            },
        };
        chats.push(now(answer::listed(answer), chat.claim.as_ref()));
    }
    Ok(chats)
}

/// Returns one of the caller's chats with its messages.
///
/// # Errors
/// [`ChatRefusal::Unknown`], and errors of the store.
pub(crate) async fn show(
    app: &App,
    context: &CallContext,
    id: &str,
) -> Result<ChatTranscript, ChatRefusal> {
    let store = app.store().ok_or(ChatRefusal::NoStore)?;
    let (record, stored_chat) = find(&*store, context, id).await?;
    Ok(ChatTranscript {
        success: true,
        chat: now(
            answer::of(&record.id, &stored_chat, Vec::new()),
            record.claim.as_ref(),
        ),
        created_at: format_timestamp(record.created_at),
        updated_at: format_timestamp(record.updated_at),
        system: stored_chat.state.system().cloned(),
        messages: stored_chat.state.messages().to_vec(),
    })
}

/// Deletes one of the caller's chats.
///
/// # Errors
/// [`ChatRefusal::Unknown`], [`ChatRefusal::Busy`], and errors of the store.
pub(crate) async fn forget(app: &App, context: &CallContext, id: &str) -> Result<(), ChatRefusal> {
    let store = app.store().ok_or(ChatRefusal::NoStore)?;
    let _claim = take(app, &store, context, id).await?;
    match store.remove_chat(&owner_of(context), id).await {
        Err(error) if error.is_not_found() => Err(ChatRefusal::Unknown),
        removed => Ok(removed?),
    }
}

/// Returns the model with this name, or the default model.
///
/// # Errors
/// [`ChatRefusal::NoModel`], [`ChatRefusal::UnknownModel`].
pub(crate) fn model_of<'a>(app: &'a App, id: Option<&str>) -> Result<&'a Model, ChatRefusal> {
    let models = app.models();
    match id {
        None => models.default().ok_or(ChatRefusal::NoModel),
        Some(id) => {
            let unknown = || ChatRefusal::UnknownModel { id: id.to_owned() };
            models.get(id).ok_or_else(unknown)
        }
    }
}

/// Returns the client of a model's provider.
///
/// # Errors
/// [`ChatRefusal::Model`] if the model is misconfigured.
fn client_of(model: &Model) -> Result<Arc<dyn LanguageModel>, ChatRefusal> {
    match &model.client {
        Ok(client) => Ok(Arc::clone(client)),
        Err(error) => Err(ChatRefusal::Model((**error).clone())),
    }
}

/// Returns the options of a request, completed with the model's configuration.
fn options_of(model: &Model, options: TurnOptions) -> TurnOptions {
    let longest = model.max_output_tokens.map(std::num::NonZeroU64::get);
    TurnOptions {
        max_output_tokens: options.max_output_tokens.or(longest),
        ..options
    }
}

/// Returns what `work` returns before the deadline of the chat.
async fn in_time<T>(
    deadline: Instant,
    work: impl Future<Output = Result<T, ChatRefusal>>,
) -> Result<T, ChatRefusal> {
    timeout_at(deadline, work).await.unwrap_or_else(|_| {
        let message = "the store did not respond before the deadline of the chat";
        Err(StoreError::unavailable(message).into())
    })
}

/// Creates the chat loop with the tools that the model and the caller may see.
async fn build_loop(
    app: &App,
    chatter: &ChatCaller,
    model: &Model,
    with_tools: bool,
    options: TurnOptions,
) -> Result<ChatLoop, ChatRefusal> {
    let client = client_of(model)?;
    let mut tools = Vec::new();
    let mut native = NativeTools::default();
    let mut executor = app.executor().clone();
    if with_tools && model.config.tools.function_calling {
        // The model needs time as well: servers that take longer are left out.
        let limit = app.models().chat().timeout / 2;
        let listing = app.tools_within(limit, &chatter.context, &chatter.visibility);
        let offered = listing.await;
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

/// Returns the answer with the status of a running chat if its claim is valid.
fn now(answer: ChatAnswer, claim: Option<&ChatClaim>) -> ChatAnswer {
    match claim::is_running(claim) {
        true => answer::while_running(answer),
        false => answer,
    }
}

/// Claims the caller's chat with this id for this request.
async fn take(
    app: &App,
    store: &Arc<dyn Store>,
    context: &CallContext,
    id: &str,
) -> Result<Claim, ChatRefusal> {
    let owner = owner_of(context);
    if let Some(claim) = Claim::take(store, &owner, id, &app.process().calls).await? {
        return Ok(claim);
    }
    Err(match store.chat(&owner, id).await? {
        Some(_) => ChatRefusal::Busy,
        None => ChatRefusal::Unknown,
    })
}

/// Returns the caller's chat with this id.
async fn find(
    store: &dyn Store,
    context: &CallContext,
    id: &str,
) -> Result<(ChatRecord, StoredChat), ChatRefusal> {
    let record = store.chat(&owner_of(context), id).await?;
    let record = record.ok_or(ChatRefusal::Unknown)?;
    let stored_chat = StoredChat::from_json(&record.json).map_err(|error| {
        tracing::warn!(chat = id, %error, "Cannot read a stored chat");
        ChatRefusal::Unreadable
    })?;
    Ok((record, stored_chat))
}

/// Returns the owner of chats: the principal together with the user.
fn owner_of(context: &CallContext) -> String {
    json!([context.principal, context.user]).to_string()
}

/// Returns how long to wait for approvals: the caller's wish up to the configured maximum.
fn wait_of(app: &App, context: &CallContext) -> Duration {
    context
        .approval
        .wait
        .min(app.approvals().section().max_wait)
}

/// Returns the context in which the tools of a chat run. Calls do not wait for approvals
/// themselves: the chat is stored before it waits.
fn context_of(stored_chat: &StoredChat, chatter: &ChatCaller) -> CallContext {
    CallContext {
        approval: ApprovalRequestOptions {
            wait: Duration::ZERO,
            ..chatter.context.approval.clone()
        },
        caller: Some("chat".to_owned()),
        channel: stored_chat.channel.clone(),
        // The model reads the results, not an HTTP client.
        result_memory: None,
        ..chatter.context.clone()
    }
}
