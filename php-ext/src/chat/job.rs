use pillion_core::tool::ToolFailure;
use secrecy::SecretString;
use serde_json::Value;

use super::runner::CallsJob;
use crate::execution::ExecutionJob;
use crate::wait::{Job, JobSender};

/// Approximate memory usage of an event that PHP has not read yet, in bytes, in addition to the
/// event's text.
const EVENT_OVERHEAD_BYTES: usize = 1024;

/// A request for the provider's API key, which a PHP callable returns.
pub(super) type KeyJob = Job<(), Result<SecretString, ToolFailure>>;

/// A job that a chat sends to the PHP thread.
pub(super) enum ChatJob {
    /// Deliver an event of the chat.
    Event(QueuedEvent),
    /// Request the provider's API key.
    Key(KeyJob),
    /// Run tool calls with the methods of an executor.
    Calls(CallsJob),
    /// Run PHP code for a tool call, such as the tool itself or an `approve` callable.
    Execution(ExecutionJob),
}

/// An event of a chat that waits for PHP to read it.
pub(super) struct QueuedEvent {
    /// The name of the event.
    pub(super) kind: &'static str,
    pub(super) data: Value,
}

impl QueuedEvent {
    /// Returns the size, in bytes, that counts against the size limit for unread events: the
    /// length of the event's text, plus a fixed overhead. Other data of events does not count,
    /// because the limits of the chat bound it. The number of text fragments has no limit.
    pub(super) fn size_bytes(&self) -> usize {
        EVENT_OVERHEAD_BYTES + self.data["text"].as_str().map_or(0, str::len)
    }
}

tokio::task_local! {
    /// The channel on which the current task sends jobs to the PHP thread of its chat. The channel
    /// is task-local, because the chats of a process share a model, but each chat has its own
    /// callables.
    pub(super) static JOB_SENDER: JobSender<ChatJob>;
}

/// Returns the channel to the PHP thread of the current task's chat; `None` if the task belongs to
/// no chat.
pub(super) fn current_job_sender() -> Option<JobSender<ChatJob>> {
    JOB_SENDER.try_with(Clone::clone).ok()
}
