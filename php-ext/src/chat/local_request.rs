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
use crate::execution::{ExecutionJob, ExecutionParticipants, PhpThread, StartedCalls};
use crate::runtime::Bound;
use crate::tools::registered_clients::Clients;
use crate::tools::registry::registry_of;
use crate::wait::{JobSender, WorkHandle};
use crate::zend::{Failure, Object};

/// Maximum size of the events that PHP has not read yet, in bytes; above it, reading the model's
/// response pauses. Larger than a typical text response.
const MAX_UNREAD_BYTES: usize = 1024 * 1024;

/// The parameters of a chat run in this process.
pub struct LocalChatRequest<'a> {
    pub settings: &'a ChatSettings,
    pub model: &'a ModelSettings,
    /// The definitions of the tools that the model may see.
    pub tools: Vec<Arc<ToolDefinition>>,
    /// The state of a chat to resume; `None` for a new chat.
    pub state: Option<&'a str>,
    /// The messages that are added to the chat.
    pub messages: Vec<Value>,
    pub context: CallContext,
    /// Whether fragments of the response are streamed as events.
    pub streamed: bool,
}

impl LocalChatRequest<'_> {
    /// Starts the chat's run with the tools of a `ToolExecutor` and the MCP clients of its
    /// registry.
    ///
    /// # Errors
    /// An `InvalidInputException` if the messages or the state are invalid; an exception of the
    /// clients' PHP code.
    pub fn start(self, executor: Object<'_>, clients: &Clients) -> Result<LocalChat, Failure> {
        let is_extended = tool_executor::is_extended(executor);
        let registry = tool_executor::registry_value(executor)?;
        let (object, registry) = registry_of(&registry)?;
        // A subclass of `ToolExecutor` runs the calls itself, so its servers need no preparation.
        let has_mcp =
            !is_extended && (self.tools.iter()).any(|tool| registry.is_mcp(tool.name().as_str()));
        registry.prepare_servers(clients, has_mcp)?;
        let engine = tool_executor::executor_of(executor)?;
        let model = self.model.create_model()?;
        let runner: Arc<dyn ToolRunner> = if is_extended {
            Arc::new(ExtendedRunner {
                executor: engine.clone(),
                queue: Mutex::default(),
            })
        } else {
            Arc::new(PhpRunner {
                executor: engine.clone(),
                in_php: registry.php_tool_names(),
            })
        };
        let backlog = Arc::new(Backlog::new(MAX_UNREAD_BYTES));
        let chat = self.chat_loop(
            runner,
            PacedModel {
                model,
                backlog: Arc::clone(&backlog),
            },
        );
        let mut state = self.initial_state(&chat)?;
        let latest_state = Arc::new(Mutex::new(state.clone()));
        let mut mcp = Vec::new();
        for client in clients.iter().filter(|_| has_mcp) {
            let (link, hooks) = client.parts()?;
            let connection = link.connection(hooks)?;
            link.deliver(hooks, &connection)?;
            mcp.push((link, connection));
        }
        let participants = ExecutionParticipants {
            registry,
            object,
            hooks: Some(tool_executor::hooks_of(executor)?),
        };
        let handled_jobs = participants.handled_jobs();
        let context = self.context;
        let opened = OnceCell::new();
        let work = WorkHandle::start(|jobs: JobSender<ChatJob>| {
            let calls = mcp
                .into_iter()
                .enumerate()
                .map(|(index, (link, connection))| {
                    let jobs = Arc::clone(&jobs);
                    let server_jobs = Arc::new(move |job| {
                        jobs(ChatJob::Execution(ExecutionJob::Mcp(index, job)));
                    });
                    let call = link.open_call(&connection, server_jobs);
                    (Bound::new(call), Bound::new(connection))
                });
            let _ = opened.set(calls.collect::<Vec<_>>());
            let chat_jobs = Arc::clone(&jobs);
            let channel = JobChannel::new(PhpThread {
                jobs: Arc::new(move |job| chat_jobs(ChatJob::Execution(job))),
                handled_jobs,
            });
            let context = channel.context(&context, false);
            let mut forwarder = EventForwarder {
                jobs: Arc::clone(&jobs),
                backlog: Arc::clone(&backlog),
                latest_state: Arc::clone(&latest_state),
                calls: Vec::new(),
            };
            JOB_SENDER.scope(jobs, async move {
                // Boxed, because the future of a chat is large.
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
            mcp_calls: opened.into_inner().unwrap_or_default(),
            started_calls: StartedCalls::default(),
            backlog,
            latest_state,
            model: self.model.model.clone(),
            is_serving: Cell::new(false),
        })
    }

    fn chat_loop(&self, runner: Arc<dyn ToolRunner>, model: PacedModel) -> ChatLoop {
        ChatLoop::new(Arc::new(model), runner)
            .with_tools(self.tools.clone())
            .with_options(self.settings.options.clone())
            .with_limits(self.settings.limits(self.model))
            .streamed(self.streamed)
    }

    /// Returns the state at the start of the run: the resumed or a new state, with the new
    /// messages.
    fn initial_state(&self, chat: &ChatLoop) -> Result<ChatState, Failure> {
        let chat_failure =
            |error: pillion_chat::ModelError| exception::for_code(error.code(), error.message);
        let Some(state) = self.state else {
            let system = self.settings.system.as_ref();
            let messages: Vec<_> = system
                .map(|system| json!({"role": "system", "content": system}))
                .into_iter()
                .chain(self.messages.clone())
                .collect();
            return chat.begin(&messages).map_err(chat_failure);
        };
        let mut state: ChatState = serde_json::from_str(state).map_err(|error| {
            exception::invalid_input(format!("The state of the chat cannot be read: {error}"))
        })?;
        if !self.messages.is_empty() {
            chat.add(&mut state, &self.messages).map_err(chat_failure)?;
        }
        Ok(state)
    }
}
