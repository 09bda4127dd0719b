//! Clients that answer elicitations.

use std::sync::{Arc, OnceLock};

use pillion_mcp_client::{Callbacks, McpClient, ServerConfig};
use serde_json::json;

/// Accepts every form without filling in a field, so that the defaults apply.
pub fn accepting_as_proposed(server: ServerConfig) -> McpClient {
    let callbacks = Callbacks::new()
        .on_elicitation(|_| async { Ok(json!({"action": "accept", "content": {}})) });
    McpClient::with_callbacks(server, callbacks)
}

/// Confirms every elicitation after calling another tool, so that a call runs while another call is
/// incomplete.
pub fn busy_during_request(server: ServerConfig) -> McpClient {
    let own_client = Arc::new(OnceLock::<McpClient>::new());
    let shared = Arc::clone(&own_client);
    let callbacks = Callbacks::new().on_elicitation(move |_| {
        let client = shared.get().cloned();
        async move {
            if let Some(client) = client {
                // The scenario checks the content of this call, not its result.
                let _ = client.call_tool("test_mrtr_unrelated", &json!({})).await;
            }
            Ok(json!({"action": "accept", "content": {"confirmed": true}}))
        }
    });
    let client = McpClient::with_callbacks(server, callbacks);
    own_client.get_or_init(|| client.clone());
    client
}
