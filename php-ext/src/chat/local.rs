use std::cell::Cell;
use std::sync::{Arc, Mutex};

use pillion_chat::{Backlog, ChatState};
use serde_json::json;

use super::event_forwarder::ChatOutcome;
use super::job::ChatJob;
use super::{ChatStep, ChatValues, FinishedChat, keys};
use crate::exception;
use crate::execution::tool_executor;
use crate::execution::{self, ExecutionParticipants, StartedCalls};
use crate::log::{LogLevel, log};
use crate::mcp::{CallHandle, McpConnection};
use crate::runtime::{ProcessBound, lock};
use crate::tools::registered_clients::RegisteredClients;
use crate::wait::{WorkEvent, WorkHandle};
use crate::zend::{Failure, Object, Result};

/// A chat whose tool loop runs in this process.
pub struct LocalChat {
    pub(super) work: WorkHandle<ChatOutcome, ChatJob>,
    /// The call handle and the connection of each MCP client, in the order of the registered
    /// clients.
    pub(super) mcp_calls: Vec<(ProcessBound<CallHandle>, ProcessBound<Arc<McpConnection>>)>,
    pub(super) started_calls: StartedCalls,
    /// The events that were sent to PHP but that PHP has not read yet.
    pub(super) backlog: Arc<Backlog>,
    pub(super) latest_state: Arc<Mutex<ChatState>>,
    pub(super) model: String,
    /// Whether PHP code that this chat has called, such as a tool, is running.
    pub(super) is_serving: Cell<bool>,
}

impl LocalChat {
    /// Waits for the next step of the chat, and handles the chat's jobs during the wait.
    ///
    /// # Errors
    /// A failure that ends the whole chat: an exception from a signal handler, a listener or the
    /// logger, `exit()` in a tool, or the end of the request.
    pub fn next(&self, executor: Object<'_>, values: &ChatValues) -> Result<ChatStep> {
        let registry_value = tool_executor::registry_value(executor)?;
        let participants = tool_executor::read_participants(executor, &registry_value)?;
        let step = self.wait_for_step(&participants, executor, values);
        self.is_serving.set(false);
        step.map_err(|failure| {
            self.started_calls
                .dispatch_failed(participants.hooks, failure)
        })
    }

    fn wait_for_step(
        &self,
        participants: &ExecutionParticipants<'_>,
        executor: Object<'_>,
        values: &ChatValues,
    ) -> Result<ChatStep> {
        let clients = &values.clients;
        let mcp_calls = self.mcp_calls.iter().filter_map(|(call, _)| call.get());
        let _wait_guards: Vec<_> = mcp_calls.map(CallHandle::begin_wait).collect();
        loop {
            let event = self.work.next()?;
            self.is_serving.set(true);
            match event {
                WorkEvent::Job(ChatJob::Event(event)) => {
                    self.backlog.subtract(event.size_bytes());
                    return Ok(ChatStep::Event(event.kind.to_owned(), event.data));
                }
                WorkEvent::Job(ChatJob::Key(job)) => {
                    job.serve(|()| keys::call_key_callable(&values.key_callable))?;
                }
                WorkEvent::Job(ChatJob::Calls(job)) => {
                    job.serve(|batch| batch.run(executor, &values.context))?;
                }
                WorkEvent::Job(ChatJob::Execution(job)) => {
                    execution::serve(participants, &self.started_calls, job, |index, job| {
                        let (Some(client), Some((call, connection))) =
                            (clients.iter().nth(index), self.mcp_calls.get(index))
                        else {
                            return Ok(());
                        };
                        let Some(connection) = connection.get() else {
                            return Ok(());
                        };
                        let (link, hooks) = client.link_and_hooks()?;
                        link.serve(hooks, connection, call, None, job)
                    })?;
                }
                WorkEvent::Done(outcome) => {
                    lock(&self.latest_state).clone_from(&outcome.state);
                    let finished_chat = self.finish(outcome)?;
                    self.deliver_notifications(clients)?;
                    return Ok(ChatStep::Done(finished_chat));
                }
            }
            self.is_serving.set(false);
        }
    }

    /// Delivers the pending notifications of the MCP servers to PHP. A failed delivery is only
    /// logged, so that the chat's outcome is not lost. Only a failure that must end the PHP request
    /// is returned.
    fn deliver_notifications(&self, clients: &RegisteredClients) -> Result<()> {
        for (client, (_, connection)) in clients.iter().zip(&self.mcp_calls) {
            let Some(connection) = connection.get() else {
                continue;
            };
            let (link, hooks) = client.link_and_hooks()?;
            if let Err(failure) = link.deliver_after_call(hooks, connection) {
                let failure = exception::into_tool_failure(failure)?;
                log(
                    LogLevel::Error,
                    "A notification callback failed after the end of a chat",
                    || json!({"server": link.server().display_name(), "error_code": failure.code}),
                );
            }
        }
        Ok(())
    }

    fn finish(&self, outcome: ChatOutcome) -> Result<FinishedChat> {
        let state = serialize_state(&outcome.state)?;
        let response = serde_json::to_value(outcome.into_response(&self.model))
            .map_err(|error| Failure::error(format!("The answer cannot be encoded: {error}")))?;
        Ok(FinishedChat { response, state })
    }

    /// Ends the run if it is still running, and returns the state from which the chat can be
    /// resumed. The state does not change afterwards.
    pub fn end(&self) -> Option<String> {
        let latest_state = if self.is_of_this_process() {
            self.work.stop();
            lock(&self.latest_state)
        } else {
            // A forked child does not wait for the lock of the state: if a thread of the parent
            // held the lock during the fork, no thread of the child ever releases it.
            self.latest_state.try_lock().ok()?
        };
        serialize_state(&latest_state).ok()
    }

    /// Dispatches the end events of the calls that were started and then cancelled.
    ///
    /// # Errors
    /// An exception from a listener or from the logger.
    pub fn dispatch_cancelled(&self, executor: Object<'_>) -> Result<()> {
        self.started_calls
            .dispatch_cancelled(tool_executor::read_hooks(executor)?)
    }

    /// Returns whether PHP code that this chat has called, such as a tool, is running in this
    /// process.
    pub fn is_serving(&self) -> bool {
        self.is_serving.get() && self.is_of_this_process()
    }

    /// Returns whether this process started the chat; `false` in a forked child.
    pub fn is_of_this_process(&self) -> bool {
        self.work.is_of_this_process()
    }
}

fn serialize_state(state: &ChatState) -> Result<String> {
    serde_json::to_string(state).map_err(|error| {
        Failure::error(format!("The state of the chat cannot be encoded: {error}"))
    })
}
