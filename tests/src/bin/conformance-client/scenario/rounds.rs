//! Clients that answer a server's questions.

use std::sync::{Arc, OnceLock};

use pillion_core::mcp::{Callbacks, McpClient, ServerConfig};
use serde_json::json;

/// Accepts every form without filling in a field: its defaults are the answer.
pub fn accepting_as_proposed(server: ServerConfig) -> McpClient {
    let callbacks = Callbacks::new()
        .on_elicitation(|_| async { Ok(json!({"action": "accept", "content": {}})) });
    McpClient::with_callbacks(server, callbacks)
}

/// Confirms what it is asked, and calls another tool first: a call in the middle of
/// another's rounds.
pub fn busy_while_asked(server: ServerConfig) -> McpClient {
    let own_client = Arc::new(OnceLock::<McpClient>::new());
    let asked = Arc::clone(&own_client);
    let callbacks = Callbacks::new().on_elicitation(move |_| {
        let client = asked.get().cloned();
        async move {
            if let Some(client) = client {
                // What the scenario checks is what this call carries, not how it ends.
                let _ = client.call_tool("test_mrtr_unrelated", &json!({})).await;
            }
            Ok(json!({"action": "accept", "content": {"confirmed": true}}))
        }
    });
    let client = McpClient::with_callbacks(server, callbacks);
    own_client.get_or_init(|| client.clone());
    client
}
