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

/// A chat whose tool loop runs in this process.
pub struct Here {
    pub(super) waiting: Waiting<Ran, Errand>,
    /// The connections of the MCP clients, in the order of the clients.
    pub(super) lines: Vec<(Bound<Line>, Bound<Arc<Connection>>)>,
    pub(super) begun: Begun,
    /// The events sent to PHP and not read yet.
    pub(super) backlog: Arc<Backlog>,
    pub(super) kept: Arc<Mutex<ChatState>>,
    pub(super) model: String,
    /// Whether PHP code of the chat is running.
    pub(super) is_serving: Cell<bool>,
}

impl Here {
    /// Waits for the next step, and meanwhile serves the chat's jobs.
    ///
    /// # Errors
    /// Failures that end the whole chat: an exception from a signal handler, a listener or the
    /// logger, `exit()` in a tool, or the end of the request.
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

    /// Delivers the servers' pending notifications to PHP. A failure here is logged and does not
    /// discard the answer; only a failure that ends the request is returned.
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

    /// Ends the run if it is still running, and returns the state that resumes the chat. Nothing
    /// happens after the returned state.
    pub fn end(&self) -> Option<String> {
        let kept = if self.is_ours() {
            self.waiting.stop();
            self.kept.lock().unwrap_or_else(PoisonError::into_inner)
        } else {
            // In a forked child, a thread that does not exist there may hold the lock forever.
            self.kept.try_lock().ok()?
        };
        written(&kept).ok()
    }

    /// Dispatches the end of the calls that were started and then canceled.
    ///
    /// # Errors
    /// An exception from a listener or from the logger.
    pub fn tell_end(&self, executor: Object<'_>) -> Result<(), Failure> {
        self.begun
            .tell_cancelled(tool_executor::hooks_of(executor)?)
    }

    /// Returns whether the chat waits for PHP code that is running.
    pub fn is_serving(&self) -> bool {
        self.is_serving.get() && self.is_ours()
    }

    /// Returns whether the chat belongs to this process.
    pub fn is_ours(&self) -> bool {
        self.waiting.is_ours()
    }
}

fn written(state: &ChatState) -> Result<String, Failure> {
    serde_json::to_string(state).map_err(|error| Failure::error(error.to_string()))
}
