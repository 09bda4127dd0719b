use std::sync::{Mutex, MutexGuard, PoisonError};

use pillion_core::mcp::McpClient;

use crate::runtime::Bound;

/// What the tools of a server call now, wherever they are registered: a client of this process.
#[derive(Default)]
pub struct Line(Mutex<Option<Bound<McpClient>>>);

impl Line {
    /// From now on they call this one. A call that is under way goes on with that of before.
    pub fn connect(&self, client: McpClient) {
        // Dropped when the lock is open again: to end a session takes other locks.
        let before = self.now().replace(Bound::new(client));
        drop(before);
    }

    /// The client; none where only another process has been connected.
    pub fn client(&self) -> Option<McpClient> {
        self.now().as_ref().and_then(Bound::get).cloned()
    }

    fn now(&self) -> MutexGuard<'_, Option<Bound<McpClient>>> {
        // A panic while the lock is held leaves a valid value behind.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
