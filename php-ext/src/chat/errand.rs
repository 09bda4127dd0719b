use serde_json::Value;

use super::keys::KeyJob;
use super::runner::CallsJob;
use crate::switchboard::Work;
use crate::wait::JobSender;

/// Approximate size of an event that waits for PHP, in bytes, without its text.
const EVENT_BYTES: usize = 1024;

/// A job that a chat sends to the PHP thread.
pub(super) enum Errand {
    /// Deliver an event.
    Said(Said),
    /// Ask for the provider's key.
    Key(KeyJob),
    /// Run calls with the methods of an executor.
    Calls(CallsJob),
    /// Work for the chat's tools.
    Work(Work),
}

/// An event of a chat.
pub(super) struct Said {
    /// The event name.
    pub(super) kind: &'static str,
    pub(super) data: Value,
}

impl Said {
    /// Returns the event's size in bytes while it waits for PHP. Only text fragments are unlimited
    /// in number; the chat's limits bound all other data.
    pub(super) fn bytes(&self) -> usize {
        EVENT_BYTES + self.data["text"].as_str().map_or(0, str::len)
    }
}

tokio::task_local! {
    /// The channel to the PHP thread of the chat that this task belongs to. The chats of a process
    /// share a model, but each chat has its own callables.
    pub(super) static PHP: JobSender<Errand>;
}

/// Returns the channel to the PHP thread of the current task's chat.
pub(super) fn php() -> Option<JobSender<Errand>> {
    PHP.try_with(Clone::clone).ok()
}
