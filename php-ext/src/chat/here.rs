use std::cell::{Cell, OnceCell};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use ext_php_rs::types::Zval;
use pillion_chat::{
    ChatEnd, ChatError, ChatEvent, ChatListener, ChatLoop, ChatState, EndedCall, HttpModel,
    ToolRunner,
};
use pillion_client::wire::{ChatAnswer, ChatApproval, ChatToolCall, ChatUsage};
use pillion_core::tool::{CallContext, ToolDefinition, ToolFailure, ToolResult};
use serde_json::{Value, json};

use super::keys::{self, KeyJob};
use super::runner::{Batch, CallsJob, ExtendedRunner, PhpRunner};
use super::{Done, ModelSettings, Settings, Step};
use crate::classes::tool_registry::{Clients, registry_of};
use crate::classes::tool_result::result_of;
use crate::classes::{tool_call, tool_executor};
use crate::exception;
use crate::execution::{self, Attendants, Begun};
use crate::log::log;
use crate::mcp::{Connection, Line};
use crate::runtime::Bound;
use crate::settings::LogLevel;
use crate::switchboard::Work;
use crate::wait::{Event, JobSender, Waiting};
use crate::zend::{Failure, Object, entries, list_of, must_stop, string_of, type_name, with_entry};

/// What a chat asks of the PHP thread.
pub(super) enum Errand {
    /// To pass on what has happened.
    Said(&'static str, Value),
    /// To ask for the provider's key.
    Key(KeyJob),
    /// To run calls by the methods of an executor.
    Calls(CallsJob),
    /// What its tools ask for.
    Work(Work),
}

tokio::task_local! {
    /// The way to the PHP thread whose chat this task is: a model is shared by the chats of a
    /// process, their callables are not.
    static PHP: JobSender<Errand>;
}

/// The way to the PHP thread of the chat whose task this is.
pub(super) fn php() -> Option<JobSender<Errand>> {
    PHP.try_with(Clone::clone).ok()
}

/// What of PHP takes part in a chat, beside its executor.
pub struct Company {
    /// The clients of MCP servers in the executor's registry.
    pub clients: Clients,
    /// The array `$context`.
    pub context: Zval,
    /// The callable that gives the provider's key, or null.
    pub key: Zval,
}

impl Company {
    /// As one value, for the garbage collector.
    pub fn to_value(&self) -> Zval {
        list_of([
            self.clients.to_value(),
            self.context.shallow_clone(),
            self.key.shallow_clone(),
        ])
    }

    /// What [`to_value`](Self::to_value) gave.
    pub fn of(value: &Zval) -> Self {
        let mut parts = value.array().into_iter().flat_map(entries);
        let mut next = || {
            parts
                .next()
                .map_or_else(Zval::new, |(_, part)| part.shallow_clone())
        };
        Self {
            clients: Clients::of(&next()),
            context: next(),
            key: next(),
        }
    }
}

/// A chat whose loop runs in this process.
pub struct Here {
    waiting: Waiting<Ran, Errand>,
    /// Of the clients of MCP servers, in their order.
    lines: Vec<(Bound<Line>, Bound<Arc<Connection>>)>,
    begun: Begun,
    kept: Arc<Mutex<ChatState>>,
    model: String,
    /// PHP code of the chat runs.
    is_serving: Cell<bool>,
}

/// A run that has ended.
struct Ran {
    state: ChatState,
    outcome: Result<ChatEnd, ChatError>,
    calls: Vec<ChatToolCall>,
}

/// A run that is to begin.
pub struct Begin<'a> {
    pub settings: &'a Settings,
    pub model: &'a ModelSettings,
    /// What the model may see.
    pub tools: Vec<Arc<ToolDefinition>>,
    /// The state of a chat that is to go on.
    pub state: Option<&'a str>,
    /// What is said now.
    pub messages: Vec<Value>,
    pub context: CallContext,
    /// Whether pieces of the answer are wanted.
    pub streamed: bool,
}

impl Begin<'_> {
    /// Starts it, with the tools of a `ToolExecutor` and the clients of its registry.
    ///
    /// # Errors
    /// An `InvalidInputException` for messages or a state that cannot be read; what the PHP code
    /// of clients throws.
    pub fn start(self, executor: Object<'_>, clients: &Clients) -> Result<Here, Failure> {
        let is_extended = tool_executor::is_extended(executor);
        let registry = tool_executor::registry_value(executor)?;
        let (object, registry) = registry_of(&registry)?;
        // What the application has extended sees to its servers itself.
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
        let chat = self.chat(runner, model);
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
                kept: Arc::clone(&kept),
                calls: Vec::new(),
            };
            PHP.scope(errands, async move {
                // Boxed: the future of a chat is large.
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
            kept,
            model: self.model.model.clone(),
            is_serving: Cell::new(false),
        })
    }

    fn chat(&self, runner: Arc<dyn ToolRunner>, model: HttpModel) -> ChatLoop {
        ChatLoop::new(Arc::new(model), runner)
            .with_tools(self.tools.clone())
            .with_options(self.settings.options.clone())
            .with_limits(self.settings.limits(self.model))
            .streamed(self.streamed)
    }

    /// The state to go on from, with what is said now.
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

impl Here {
    /// Waits for what comes next, and does meanwhile what the chat asks for.
    ///
    /// # Errors
    /// What ends the chat as a whole: an exception of a signal handler, of a listener or of the
    /// logger, `exit()` in a tool, the end of the request.
    pub fn next(&self, executor: Object<'_>, company: &Company) -> Result<Step, Failure> {
        let registry = tool_executor::registry_value(executor)?;
        let (object, registry) = registry_of(&registry)?;
        let attendants = Attendants {
            registry,
            object,
            hooks: Some(tool_executor::hooks_of(executor)?),
        };
        let step = self.wait(&attendants, executor, company);
        self.is_serving.set(false);
        step.map_err(|failure| self.begun.tell_failure(attendants.hooks, failure))
    }

    fn wait(
        &self,
        attendants: &Attendants<'_>,
        executor: Object<'_>,
        company: &Company,
    ) -> Result<Step, Failure> {
        let clients = &company.clients;
        let lines = self.lines.iter().filter_map(|(line, _)| line.get());
        let _waits: Vec<_> = lines.map(Line::wait).collect();
        loop {
            let event = self.waiting.next()?;
            self.is_serving.set(true);
            match event {
                Event::Job(Errand::Said(kind, data)) => {
                    return Ok(Step::Said(kind.to_owned(), data));
                }
                Event::Job(Errand::Key(job)) => job.serve(|()| keys::ask(&company.key))?,
                Event::Job(Errand::Calls(job)) => {
                    job.serve(|batch| run(executor, batch, &company.context))?;
                }
                Event::Job(Errand::Work(work)) => {
                    execution::serve(attendants, &self.begun, work, |place, errand| {
                        let (Some(client), Some((line, connection))) =
                            (clients.iter().nth(place), self.lines.get(place))
                        else {
                            return Ok(());
                        };
                        let Some(connection) = connection.get() else {
                            return Ok(());
                        };
                        let (link, hooks) = client.parts()?;
                        link.serve(hooks, connection, line, None, errand)
                    })?;
                }
                Event::Done(ran) => {
                    self.kept
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .clone_from(&ran.state);
                    let done = self.ended(ran)?;
                    self.settle(clients)?;
                    return Ok(Step::Done(done));
                }
            }
            self.is_serving.set(false);
        }
    }

    /// Tells PHP what the servers have said meanwhile. The answer is not lost with what fails here,
    /// which goes to the error log; only what ends the request goes on.
    fn settle(&self, clients: &Clients) -> Result<(), Failure> {
        for (client, (_, connection)) in clients.iter().zip(&self.lines) {
            let Some(connection) = connection.get() else {
                continue;
            };
            let (link, hooks) = client.parts()?;
            if let Err(failure) = link.settle(hooks, connection) {
                let failure = exception::into_tool_failure(failure)?;
                log(
                    LogLevel::Error,
                    "A callback failed after a chat",
                    || json!({"server": link.server().shown_name(), "error_code": failure.code}),
                );
            }
        }
        Ok(())
    }

    fn ended(&self, ran: Ran) -> Result<Done, Failure> {
        let state = written(&ran.state)?;
        let answer = answer_of(&self.model, ran);
        let answer = serde_json::to_value(&answer);
        let answer = answer.map_err(|error| Failure::error(error.to_string()))?;
        Ok(Done { answer, state })
    }

    /// Ends the run if it goes on, and gives what it takes to go on: nothing happens after it that
    /// the state does not know of.
    pub fn end(&self) -> Option<String> {
        let kept = if self.is_ours() {
            self.waiting.stop();
            self.kept.lock().unwrap_or_else(PoisonError::into_inner)
        } else {
            // In a forked child the lock may be held for ever by a thread that is not there.
            self.kept.try_lock().ok()?
        };
        written(&kept).ok()
    }

    /// Tells that calls which have begun have been given up.
    ///
    /// # Errors
    /// What a listener or the logger throws.
    pub fn tell_end(&self, executor: Object<'_>) -> Result<(), Failure> {
        self.begun
            .tell_cancelled(tool_executor::hooks_of(executor)?)
    }

    /// Whether PHP code of the chat runs, for which it waits.
    pub fn is_serving(&self) -> bool {
        self.is_serving.get() && self.is_ours()
    }

    /// Whether this is the process that it runs in.
    pub fn is_ours(&self) -> bool {
        self.waiting.is_ours()
    }
}

/// Runs calls by the method that the application has written. Of what the context approves of it
/// gets what is for these calls.
fn run(
    executor: Object<'_>,
    batch: &Batch,
    context: &Zval,
) -> Result<Result<Vec<ToolResult>, ToolFailure>, Failure> {
    let context = match context.is_null() {
        true => list_of([]),
        false
            if context
                .array()
                .is_some_and(|it| it.get("approved").is_some()) =>
        {
            let approved = batch.approved.iter().map(string_of);
            with_entry(context, "approved", list_of(approved))
        }
        false => context.shallow_clone(),
    };
    let calls = batch.calls.iter().map(tool_call::new_call);
    let calls = list_of(calls.collect::<Result<Vec<_>, _>>()?);
    let ran = executor.call("executeParallel", [calls, context]);
    let results = ran.and_then(|ran| {
        let results = ran.array().into_iter().flat_map(entries);
        let results = results.map(|(_, result)| {
            result_of(result.dereference())?.ok_or_else(|| {
                let given = type_name(result.dereference());
                Failure::error(format!("executeParallel() must give results, not {given}"))
            })
        });
        results.collect::<Result<Vec<_>, _>>()
    });
    match results {
        // What was given up on the way may have a destructor that throws.
        Ok(_) if must_stop() => exception::into_tool_failure(Failure::Pending).map(Err),
        Ok(results) => Ok(Ok(results)),
        Err(failure) => exception::into_tool_failure(failure).map(Err),
    }
}

fn written(state: &ChatState) -> Result<String, Failure> {
    serde_json::to_string(state).map_err(|error| Failure::error(error.to_string()))
}

/// Passes on what happens, and keeps the state.
struct Teller {
    errands: JobSender<Errand>,
    kept: Arc<Mutex<ChatState>>,
    calls: Vec<ChatToolCall>,
}

#[async_trait]
impl ChatListener for Teller {
    fn hear(&mut self, event: ChatEvent) {
        if let ChatEvent::ToolFinished(ended) = &event {
            self.calls.push(call_of(ended));
        }
        if let Some((kind, data)) = event.shown() {
            (self.errands)(Errand::Said(kind, data));
        }
    }

    async fn keep(&mut self, state: &ChatState) -> Result<(), ToolFailure> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.clone_from(state);
        Ok(())
    }
}

fn call_of(ended: &EndedCall) -> ChatToolCall {
    let EndedCall { result, .. } = ended;
    ChatToolCall {
        id: result.tool_call_id.clone(),
        name: result.tool_name.clone(),
        arguments: ended.given(),
        success: result.success,
        content: result.content(),
        error_code: result.error_code.map(|code| code.to_string()),
    }
}

/// How the run has ended, as the sidecar's API says it.
fn answer_of(model: &str, ran: Ran) -> ChatAnswer {
    let Ran {
        state,
        outcome,
        calls,
    } = ran;
    let error = outcome.as_ref().err();
    let answer = state.answer().filter(|_| error.is_none());
    let waiting = state.waiting();
    let status = match () {
        () if error.is_some() => "failed",
        () if answer.is_some() => "answered",
        () => "awaiting_approval",
    };
    let usage = state.usage();
    ChatAnswer {
        success: answer.is_some(),
        id: String::new(),
        model: model.to_owned(),
        status: status.to_owned(),
        content: answer.map(|answer| answer.text.clone()),
        finish_reason: answer.map(|answer| answer.finish.reason().to_owned()),
        limit_reached: answer
            .and_then(|answer| answer.limit_reached)
            .map(|limit| limit.name().to_owned()),
        tool_calls: calls,
        approvals: (waiting.iter())
            .map(|waiting| ChatApproval {
                id: waiting.approval_id.clone(),
                call: waiting.call.id.clone(),
                tool: waiting.call.name.clone(),
                arguments: waiting.asked(),
            })
            .collect(),
        usage: ChatUsage {
            requests: state.requests() as u64,
            input_tokens: usage.input_tokens,
            output_tokens: usage.output_tokens,
            cached_tokens: usage.cached_tokens,
        },
        error: error.map(ToString::to_string),
        error_code: error.map(|error| error.code().to_string()),
        retry_after: match error {
            Some(ChatError::Model(error)) => error.retry_after.map(|after| after.as_secs_f64()),
            _ => None,
        },
    }
}
