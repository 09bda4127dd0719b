use std::cell::{Cell, OnceCell};
use std::sync::{Arc, Mutex};

use pillion_chat::{Backlog, ChatLoop, ChatState, ToolRunner};
use pillion_core::job_channel::JobChannel;
use pillion_core::tool::{CallContext, ToolDefinition};
use serde_json::{Value, json};

use super::event_forwarder::{ChatOutcome, EventForwarder};
use super::job::{ChatJob, JOB_SENDER};
use super::local::LocalChat;
use super::paced_model::PacedModel;
use super::runner::{ExtendedRunner, PhpRunner};
use super::{ChatSettings, ModelSettings};
use crate::exception;
use crate::execution::tool_executor;
use crate::execution::{ExecutionJob, PhpThread, StartedCalls};
use crate::runtime::ProcessBound;
use crate::tools::registered_clients::RegisteredClients;
use crate::wait::{JobSender, WorkHandle};
use crate::zend::{Object, Result};

/// Maximum size of the events that PHP has not read yet, in bytes. Above this size, Pillion stops
/// reading the model's response until PHP has read events. The limit is larger than a typical text
/// response.
const MAX_UNREAD_BYTES: usize = 1024 * 1024;

/// The parameters of a chat whose tool loop runs in this process.
pub struct LocalChatRequest<'a> {
    pub settings: &'a ChatSettings,
    pub model: &'a ModelSettings,
    /// The definitions of the tools that the model may see.
    pub tools: Vec<Arc<ToolDefinition>>,
    /// The state of a chat to resume; `None` for a new chat.
    pub state: Option<&'a str>,
    /// The new messages to append to the chat.
    pub messages: Vec<Value>,
    pub context: CallContext,
    /// Whether fragments of the model's response are sent as events.
    pub is_streamed: bool,
}

impl LocalChatRequest<'_> {
    /// Starts the chat's run with the tools of a `ToolExecutor` and the MCP clients of its
    /// registry.
    ///
    /// # Errors
    /// An `InvalidInputException` if the messages or the state are invalid; an exception of the
    /// clients' PHP code.
    pub fn start(self, executor: Object<'_>, clients: &RegisteredClients) -> Result<LocalChat> {
        let is_extended = tool_executor::is_extended(executor);
        let registry_value = tool_executor::registry_value(executor)?;
        let participants = tool_executor::read_participants(executor, &registry_value)?;
        let registry = participants.registry;
        // The MCP servers are prepared here only for a plain `ToolExecutor`, because a subclass
        // runs the calls with its own `executeParallel()`.
        let has_mcp_tools = !is_extended
            && (self.tools.iter()).any(|tool| registry.is_mcp_tool(tool.name().as_str()));
        registry.prepare_servers(clients, has_mcp_tools)?;
        let engine_executor = tool_executor::read_executor(executor)?;
        let runner: Arc<dyn ToolRunner> = if is_extended {
            Arc::new(ExtendedRunner {
                executor: engine_executor.clone(),
                queue: Mutex::default(),
            })
        } else {
            Arc::new(PhpRunner {
                executor: engine_executor.clone(),
                php_tool_names: registry.php_tool_names(),
            })
        };
        let backlog = Arc::new(Backlog::new(MAX_UNREAD_BYTES));
        let model = PacedModel {
            model: self.model.create_model()?,
            backlog: Arc::clone(&backlog),
        };
        let chat = self.new_chat_loop(runner, model);
        let mut state = self.create_initial_state(&chat)?;
        let latest_state = Arc::new(Mutex::new(state.clone()));
        let mut mcp_links = Vec::new();
        for client in clients.iter().filter(|_| has_mcp_tools) {
            let (link, hooks) = client.link_and_hooks()?;
            let connection = link.connection(hooks)?;
            link.deliver(hooks, &connection)?;
            mcp_links.push((link, connection));
        }
        let handled_jobs = participants.handled_jobs();
        let context = self.context;
        let opened_calls = OnceCell::new();
        let work = WorkHandle::start(|job_sender: JobSender<ChatJob>| {
            let mcp_calls = mcp_links
                .into_iter()
                .enumerate()
                .map(|(index, (link, connection))| {
                    let job_sender = Arc::clone(&job_sender);
                    let server_job_sender = Arc::new(move |job| {
                        job_sender(ChatJob::Execution(ExecutionJob::Mcp(index, job)));
                    });
                    let call = link.open_call(&connection, server_job_sender);
                    (ProcessBound::new(call), ProcessBound::new(connection))
                });
            let _ = opened_calls.set(mcp_calls.collect::<Vec<_>>());
            let chat_job_sender = Arc::clone(&job_sender);
            let channel = JobChannel::new(PhpThread {
                job_sender: Arc::new(move |job| chat_job_sender(ChatJob::Execution(job))),
                handled_jobs,
            });
            let context = channel.context(&context, false);
            let mut forwarder = EventForwarder {
                job_sender: Arc::clone(&job_sender),
                backlog: Arc::clone(&backlog),
                latest_state: Arc::clone(&latest_state),
                calls: Vec::new(),
            };
            JOB_SENDER.scope(job_sender, async move {
                // The future is boxed, because the future of a chat is large.
                let outcome = Box::pin(chat.run(&mut state, &context, &mut forwarder)).await;
                let calls = forwarder.calls;
                ChatOutcome {
                    state,
                    outcome,
                    calls,
                }
            })
        })?;
        Ok(LocalChat {
            work,
            mcp_calls: opened_calls.into_inner().unwrap_or_default(),
            started_calls: StartedCalls::default(),
            backlog,
            latest_state,
            model: self.model.model.clone(),
            is_serving: Cell::new(false),
        })
    }

    fn new_chat_loop(&self, runner: Arc<dyn ToolRunner>, model: PacedModel) -> ChatLoop {
        ChatLoop::new(Arc::new(model), runner)
            .with_tools(self.tools.clone())
            .with_options(self.settings.options.clone())
            .with_limits(self.settings.limits(self.model))
            .with_streaming(self.is_streamed)
    }

    /// Returns the state at the start of the run: the state to resume, or a new state, with the new
    /// messages appended.
    fn create_initial_state(&self, chat: &ChatLoop) -> Result<ChatState> {
        let chat_failure =
            |error: pillion_chat::ModelError| exception::for_code(error.code(), error.message);
        let Some(serialized_state) = self.state else {
            let system = self.settings.system.as_ref();
            let messages: Vec<_> = system
                .map(|system| json!({"role": "system", "content": system}))
                .into_iter()
                .chain(self.messages.clone())
                .collect();
            return chat.begin(&messages).map_err(chat_failure);
        };
        let mut state: ChatState = serde_json::from_str(serialized_state).map_err(|error| {
            exception::invalid_input(format!("The state of the chat cannot be read: {error}"))
        })?;
        if !self.messages.is_empty() {
            chat.add(&mut state, &self.messages).map_err(chat_failure)?;
        }
        Ok(state)
    }
}
