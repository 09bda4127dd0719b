use std::cell::Cell;
use std::sync::{Arc, Mutex, PoisonError};

use pillion_chat::{Backlog, ChatState};
use serde_json::json;

use super::errand::Errand;
use super::teller::Ran;
use super::{Company, Done, Step, keys};
use crate::classes::tool_executor;
use crate::classes::tool_registry::{Clients, registry_of};
use crate::exception;
use crate::execution::{self, Attendants, Begun};
use crate::log::log;
use crate::mcp::{Connection, Line};
use crate::runtime::Bound;
use crate::settings::LogLevel;
use crate::wait::{Event, Waiting};
use crate::zend::{Failure, Object};

/// A chat whose loop runs in this process.
pub struct Here {
    pub(super) waiting: Waiting<Ran, Errand>,
    /// Of the clients of MCP servers, in their order.
    pub(super) lines: Vec<(Bound<Line>, Bound<Arc<Connection>>)>,
    pub(super) begun: Begun,
    /// What PHP has been told and has not read.
    pub(super) backlog: Arc<Backlog>,
    pub(super) kept: Arc<Mutex<ChatState>>,
    pub(super) model: String,
    /// PHP code of the chat runs.
    pub(super) is_serving: Cell<bool>,
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
                Event::Job(Errand::Said(said)) => {
                    self.backlog.read(said.bytes());
                    return Ok(Step::Said(said.kind.to_owned(), said.data));
                }
                Event::Job(Errand::Key(job)) => job.serve(|()| keys::ask(&company.key))?,
                Event::Job(Errand::Calls(job)) => {
                    job.serve(|batch| batch.run(executor, &company.context))?;
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
        let answer = serde_json::to_value(ran.into_answer(&self.model));
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

fn written(state: &ChatState) -> Result<String, Failure> {
    serde_json::to_string(state).map_err(|error| Failure::error(error.to_string()))
}
