use std::collections::HashSet;
use std::sync::Arc;

use parking_lot::Mutex;

/// The chats that run in this process: two requests at once would answer the same message twice.
/// Another process is found out by the chat's revision.
#[derive(Debug, Clone, Default)]
pub(crate) struct Running {
    ids: Arc<Mutex<HashSet<String>>>,
}

/// A chat is somebody's until this is dropped.
#[derive(Debug)]
pub(crate) struct Claim {
    running: Running,
    id: String,
}

impl Running {
    /// The chat of that id, unless somebody has it.
    pub(crate) fn claim(&self, id: &str) -> Option<Claim> {
        let is_free = self.ids.lock().insert(id.to_owned());
        is_free.then(|| Claim {
            running: self.clone(),
            id: id.to_owned(),
        })
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.running.ids.lock().remove(&self.id);
    }
}
