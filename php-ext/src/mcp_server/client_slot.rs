use std::sync::{Mutex, MutexGuard, PoisonError};

use pillion_mcp_client::McpClient;

use crate::runtime::Bound;

/// The MCP client of this process that the tools of a server use, in all registries.
#[derive(Default)]
pub struct ClientSlot(Mutex<Option<Bound<McpClient>>>);

impl ClientSlot {
    /// Replaces the client. A running call continues with the previous client.
    pub fn connect(&self, client: McpClient) {
        // The previous client is dropped after the lock is released, because ending a session takes
        // other locks.
        let previous = self.lock().replace(Bound::new(client));
        drop(previous);
    }

    /// Returns the client; `None` if only another process has connected.
    pub fn client(&self) -> Option<McpClient> {
        self.lock().as_ref().and_then(Bound::get).cloned()
    }

    fn lock(&self) -> MutexGuard<'_, Option<Bound<McpClient>>> {
        // A panic while the lock is held leaves a valid value behind.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
