use std::collections::HashSet;
use std::sync::Arc;

use parking_lot::Mutex;

/// The chats that run in this process: two requests at once would answer the same message twice.
/// Another process is found out by the chat's revision.
#[derive(Debug, Clone, Default)]
pub(crate) struct Running {
    /// Owners and ids.
    chats: Arc<Mutex<HashSet<(String, String)>>>,
}

/// A chat is somebody's until this is dropped.
#[derive(Debug)]
pub(crate) struct Claim {
    running: Running,
    chat: (String, String),
}

impl Running {
    /// The owner's chat of that id, unless somebody has it.
    pub(crate) fn claim(&self, owner: &str, id: &str) -> Option<Claim> {
        let chat = (owner.to_owned(), id.to_owned());
        let is_free = self.chats.lock().insert(chat.clone());
        is_free.then(|| Claim {
            running: self.clone(),
            chat,
        })
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.running.chats.lock().remove(&self.chat);
    }
}
