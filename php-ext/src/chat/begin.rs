use std::cell::{Cell, OnceCell};
use std::sync::{Arc, Mutex};

use pillion_chat::{Backlog, ChatLoop, ChatState, ToolRunner};
use pillion_core::tool::{CallContext, ToolDefinition};
use serde_json::{Value, json};

use super::errand::{Errand, PHP};
use super::here::Here;
use super::paced_model::PacedModel;
use super::runner::{ExtendedRunner, PhpRunner};
use super::teller::{Ran, Teller};
use super::{ModelSettings, Settings};
use crate::classes::tool_executor;
use crate::classes::tool_registry::{Clients, registry_of};
use crate::exception;
use crate::execution::{Attendants, Begun};
use crate::runtime::Bound;
use crate::switchboard::Work;
use crate::wait::{JobSender, Waiting};
use crate::zend::{Failure, Object};

/// Maximum number of event bytes that PHP has not read yet, before reading of the model's answer
/// pauses. Larger than a typical text answer.
const MAX_UNREAD: usize = 1024 * 1024;

/// The parameters of a chat run in this process.
pub struct Begin<'a> {
    pub settings: &'a Settings,
    pub model: &'a ModelSettings,
    /// The definitions of the tools that the model may see.
    pub tools: Vec<Arc<ToolDefinition>>,
    /// The state of the chat to resume.
    pub state: Option<&'a str>,
    /// The new messages.
    pub messages: Vec<Value>,
    pub context: CallContext,
    /// Whether to stream fragments of the answer.
    pub streamed: bool,
}

impl Begin<'_> {
    /// Starts the run with the tools of a `ToolExecutor` and the MCP clients of its registry.
    ///
    /// # Errors
    /// An `InvalidInputException` for invalid messages or an invalid state; exceptions from the
    /// clients' PHP code.
    pub fn start(self, executor: Object<'_>, clients: &Clients) -> Result<Here, Failure> {
        let is_extended = tool_executor::is_extended(executor);
        let registry = tool_executor::registry_value(executor)?;
        let (object, registry) = registry_of(&registry)?;
        // An extended executor class runs the calls itself, so its servers need no preparation
        // here.
        let has_mcp =
            !is_extended && (self.tools.iter()).any(|tool| registry.is_mcp(tool.name().as_str()));
        registry.follow(clients, has_mcp)?;
        let engine = tool_executor::executor_of(executor)?;
        let model = self.model.at_provider()?;
        let runner: Arc<dyn ToolRunner> = match is_extended {
            true => Arc::new(ExtendedRunner {
                executor: engine.clone(),
                queue: Mutex::default(),
            }),
            false => Arc::new(PhpRunner {
                executor: engine.clone(),
                in_php: registry.names_in_php(),
                switchboard: Arc::clone(registry.switchboard()),
            }),
        };
        let backlog = Arc::new(Backlog::new(MAX_UNREAD));
        let chat = self.chat(
            runner,
            PacedModel {
                model,
                backlog: Arc::clone(&backlog),
            },
        );
        let mut state = self.state(&chat)?;
        let kept = Arc::new(Mutex::new(state.clone()));
        let mut mcp = Vec::new();
        for client in clients.iter().filter(|_| has_mcp) {
            let (link, hooks) = client.parts()?;
            let connection = link.connection(hooks)?;
            link.deliver(hooks, &connection)?;
            mcp.push((link, connection));
        }
        let attendants = Attendants {
            registry,
            object,
            hooks: Some(tool_executor::hooks_of(executor)?),
        };
        let serves = attendants.serves();
        let mut context = self.context;
        let opened = OnceCell::new();
        let waiting = Waiting::start(|errands: JobSender<Errand>| {
            let lines = mcp
                .into_iter()
                .enumerate()
                .map(|(place, (link, connection))| {
                    let errands = Arc::clone(&errands);
                    let errands =
                        Arc::new(move |errand| errands(Errand::Work(Work::Mcp(place, errand))));
                    let line = link.open_line(&connection, errands);
                    (Bound::new(line), Bound::new(connection))
                });
            let _ = opened.set(lines.collect::<Vec<_>>());
            let work = Arc::clone(&errands);
            let work: JobSender<Work> = Arc::new(move |asked| work(Errand::Work(asked)));
            let open = registry.switchboard().open(work, serves, &mut context);
            let mut teller = Teller {
                errands: Arc::clone(&errands),
                backlog: Arc::clone(&backlog),
                kept: Arc::clone(&kept),
                calls: Vec::new(),
            };
            PHP.scope(errands, async move {
                // Boxed because the future of a chat is large.
                let outcome = Box::pin(chat.run(&mut state, &context, &mut teller)).await;
                drop(open);
                let calls = teller.calls;
                Ran {
                    state,
                    outcome,
                    calls,
                }
            })
        })?;
        Ok(Here {
            waiting,
            lines: opened.into_inner().unwrap_or_default(),
            begun: Begun::default(),
            backlog,
            kept,
            model: self.model.model.clone(),
            is_serving: Cell::new(false),
        })
    }

    fn chat(&self, runner: Arc<dyn ToolRunner>, model: PacedModel) -> ChatLoop {
        ChatLoop::new(Arc::new(model), runner)
            .with_tools(self.tools.clone())
            .with_options(self.settings.options.clone())
            .with_limits(self.settings.limits(self.model))
            .streamed(self.streamed)
    }

    /// Returns the initial state of the run: the resumed or new state plus the new messages.
    fn state(&self, chat: &ChatLoop) -> Result<ChatState, Failure> {
        let refused =
            |error: pillion_chat::ModelError| exception::of_code(error.code(), error.message);
        let Some(state) = self.state else {
            let system = self.settings.system.as_ref();
            let system = system.map(|system| json!({"role": "system", "content": system}));
            let messages: Vec<_> = system.into_iter().chain(self.messages.clone()).collect();
            return chat.begin(&messages).map_err(refused);
        };
        let mut state: ChatState = serde_json::from_str(state).map_err(|error| {
            exception::invalid_input(format!("The state of the chat cannot be read: {error}"))
        })?;
        if !self.messages.is_empty() {
            chat.add(&mut state, &self.messages).map_err(refused)?;
        }
        Ok(state)
    }
}
