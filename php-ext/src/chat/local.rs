use std::cell::Cell;
use std::sync::{Arc, Mutex, PoisonError};

use pillion_chat::{Backlog, ChatState};
use serde_json::json;

use super::event_forwarder::ChatOutcome;
use super::job::ChatJob;
use super::{ChatValues, FinishedChat, Step, keys};
use crate::exception;
use crate::execution::tool_executor;
use crate::execution::{self, ExecutionParticipants, StartedCalls};
use crate::log::{LogLevel, log};
use crate::mcp::{CallHandle, McpConnection};
use crate::runtime::Bound;
use crate::tools::registered_clients::Clients;
use crate::tools::registry::registry_of;
use crate::wait::{Event, WorkHandle};
use crate::zend::{Failure, Object};

/// A chat whose tool loop runs in this process.
pub struct LocalChat {
    pub(super) work: WorkHandle<ChatOutcome, ChatJob>,
    /// The call handles and the connections of the MCP clients, in the order of the clients.
    pub(super) mcp_calls: Vec<(Bound<CallHandle>, Bound<Arc<McpConnection>>)>,
    pub(super) started_calls: StartedCalls,
    /// The events that were sent to PHP, and that PHP has not read yet.
    pub(super) backlog: Arc<Backlog>,
    pub(super) latest_state: Arc<Mutex<ChatState>>,
    pub(super) model: String,
    /// Whether PHP code of the chat is running.
    pub(super) is_serving: Cell<bool>,
}

impl LocalChat {
    /// Waits for the next step of the chat, and handles the chat's jobs meanwhile.
    ///
    /// # Errors
    /// A failure that ends the whole chat: an exception from a signal handler, a listener or the
    /// logger, `exit()` in a tool, or the end of the request.
    pub fn next(&self, executor: Object<'_>, values: &ChatValues) -> Result<Step, Failure> {
        let registry = tool_executor::registry_value(executor)?;
        let (object, registry) = registry_of(&registry)?;
        let participants = ExecutionParticipants {
            registry,
            object,
            hooks: Some(tool_executor::hooks_of(executor)?),
        };
        let step = self.wait(&participants, executor, values);
        self.is_serving.set(false);
        step.map_err(|failure| {
            self.started_calls
                .dispatch_failed(participants.hooks, failure)
        })
    }

    fn wait(
        &self,
        participants: &ExecutionParticipants<'_>,
        executor: Object<'_>,
        values: &ChatValues,
    ) -> Result<Step, Failure> {
        let clients = &values.clients;
        let mcp_calls = self.mcp_calls.iter().filter_map(|(call, _)| call.get());
        let _waits: Vec<_> = mcp_calls.map(CallHandle::begin_wait).collect();
        loop {
            let event = self.work.next()?;
            self.is_serving.set(true);
            match event {
                Event::Job(ChatJob::Event(event)) => {
                    self.backlog.subtract(event.size());
                    return Ok(Step::Event(event.kind.to_owned(), event.data));
                }
                Event::Job(ChatJob::Key(job)) => {
                    job.serve(|()| keys::call_key_callable(&values.key))?;
                }
                Event::Job(ChatJob::Calls(job)) => {
                    job.serve(|batch| batch.run(executor, &values.context))?;
                }
                Event::Job(ChatJob::Execution(job)) => {
                    execution::serve(participants, &self.started_calls, job, |index, job| {
                        let (Some(client), Some((call, connection))) =
                            (clients.iter().nth(index), self.mcp_calls.get(index))
                        else {
                            return Ok(());
                        };
                        let Some(connection) = connection.get() else {
                            return Ok(());
                        };
                        let (link, hooks) = client.parts()?;
                        link.serve(hooks, connection, call, None, job)
                    })?;
                }
                Event::Done(outcome) => {
                    self.latest_state
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .clone_from(&outcome.state);
                    let finished = self.finish(outcome)?;
                    self.deliver_notifications(clients)?;
                    return Ok(Step::Done(finished));
                }
            }
            self.is_serving.set(false);
        }
    }

    /// Delivers the servers' pending notifications to PHP. A failure is logged and does not discard
    /// the response; only a failure that ends the request is returned.
    fn deliver_notifications(&self, clients: &Clients) -> Result<(), Failure> {
        for (client, (_, connection)) in clients.iter().zip(&self.mcp_calls) {
            let Some(connection) = connection.get() else {
                continue;
            };
            let (link, hooks) = client.parts()?;
            if let Err(failure) = link.deliver_after_call(hooks, connection) {
                let failure = exception::into_tool_failure(failure)?;
                log(
                    LogLevel::Error,
                    "A callback failed after a chat",
                    || json!({"server": link.server().display_name(), "error_code": failure.code}),
                );
            }
        }
        Ok(())
    }

    fn finish(&self, outcome: ChatOutcome) -> Result<FinishedChat, Failure> {
        let state = serialize_state(&outcome.state)?;
        let response = serde_json::to_value(outcome.into_response(&self.model))
            .map_err(|error| Failure::error(error.to_string()))?;
        Ok(FinishedChat { response, state })
    }

    /// Ends the run if it is still running, and returns the state that resumes the chat. The
    /// state does not change afterwards.
    pub fn end(&self) -> Option<String> {
        let latest_state = if self.is_ours() {
            self.work.stop();
            self.latest_state
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
        } else {
            // In a forked child, the lock may be held forever by a thread of the parent.
            self.latest_state.try_lock().ok()?
        };
        serialize_state(&latest_state).ok()
    }

    /// Dispatches the end of the calls that were started and then cancelled.
    ///
    /// # Errors
    /// An exception from a listener or from the logger.
    pub fn dispatch_cancelled(&self, executor: Object<'_>) -> Result<(), Failure> {
        self.started_calls
            .dispatch_cancelled(tool_executor::hooks_of(executor)?)
    }

    /// Returns whether the chat waits for PHP code that is running.
    pub fn is_serving(&self) -> bool {
        self.is_serving.get() && self.is_ours()
    }

    /// Returns whether the chat belongs to this process.
    pub fn is_ours(&self) -> bool {
        self.work.is_ours()
    }
}

fn serialize_state(state: &ChatState) -> Result<String, Failure> {
    serde_json::to_string(state).map_err(|error| Failure::error(error.to_string()))
}
