use std::sync::Mutex;

use pillion_mcp_client::McpClient;

use crate::runtime::{ProcessBound, lock};

/// The MCP client of this process that the tools of a server use, in all registries.
#[derive(Default)]
pub struct ClientSlot(Mutex<Option<ProcessBound<McpClient>>>);

impl ClientSlot {
    /// Replaces the client. A running call continues with the previous client.
    pub fn replace_client(&self, client: McpClient) {
        // The previous client is dropped after the lock is released, because ending a session takes
        // other locks.
        let previous_client = lock(&self.0).replace(ProcessBound::new(client));
        drop(previous_client);
    }

    /// Returns the client; `None` if this process has not connected yet.
    pub fn client(&self) -> Option<McpClient> {
        lock(&self.0).as_ref().and_then(ProcessBound::get).cloned()
    }
}
