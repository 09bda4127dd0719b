use serde_json::Value;

use super::keys::KeyJob;
use super::runner::CallsJob;
use crate::switchboard::Work;
use crate::wait::JobSender;

/// What an event takes while it waits for PHP, beside its text, in bytes: about so much.
const EVENT_BYTES: usize = 1024;

/// What a chat asks of the PHP thread.
pub(super) enum Errand {
    /// To pass on what has happened.
    Said(Said),
    /// To ask for the provider's key.
    Key(KeyJob),
    /// To run calls by the methods of an executor.
    Calls(CallsJob),
    /// What its tools ask for.
    Work(Work),
}

/// Something that has happened in a chat.
pub(super) struct Said {
    /// Its name.
    pub(super) kind: &'static str,
    pub(super) data: Value,
}

impl Said {
    /// What it takes while it waits for PHP, in bytes. Pieces of answers are what there may be any
    /// number of; what else an event holds, the chat's limits bound.
    pub(super) fn bytes(&self) -> usize {
        EVENT_BYTES + self.data["text"].as_str().map_or(0, str::len)
    }
}

tokio::task_local! {
    /// The way to the PHP thread whose chat this task is: a model is shared by the chats of a
    /// process, their callables are not.
    pub(super) static PHP: JobSender<Errand>;
}

/// The way to the PHP thread of the chat whose task this is.
pub(super) fn php() -> Option<JobSender<Errand>> {
    PHP.try_with(Clone::clone).ok()
}
