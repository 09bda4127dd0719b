use serde_json::{Value, json};

/// An MCP server that the provider calls by itself: an entry of `tools` in a request to
/// OpenAI's Responses (H1). Its tools then run at the provider and never come here as calls.
///
/// ```
/// use pillion_core::provider::NativeMcpServer;
/// use serde_json::json;
/// let dmcp = NativeMcpServer {
///     label: "dmcp".into(),
///     description: Some("Rolls dice".into()),
///     url: "https://dmcp-server.deno.dev/sse".into(),
///     require_approval: "never".into(),
/// };
/// assert_eq!(dmcp.to_tool(), json!({
///     "type": "mcp",
///     "server_label": "dmcp",
///     "server_description": "Rolls dice",
///     "server_url": "https://dmcp-server.deno.dev/sse",
///     "require_approval": "never",
/// }));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NativeMcpServer {
    /// The name under which the model and the calls know the server.
    pub label: String,
    /// What the server is good for, in words for the model.
    pub description: Option<String>,
    /// The server's URL; the provider must be able to reach it.
    pub url: String,
    /// `always` or `never`.
    pub require_approval: String,
}

impl NativeMcpServer {
    /// The entry of `tools`; `server_description` is left out when there is none.
    #[must_use]
    pub fn to_tool(&self) -> Value {
        let mut tool = json!({"type": "mcp", "server_label": self.label});
        if let Some(description) = &self.description {
            tool["server_description"] = json!(description);
        }
        tool["server_url"] = json!(self.url);
        tool["require_approval"] = json!(self.require_approval);
        tool
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn h1_a_native_mcp_server_needs_no_description() {
        let server = NativeMcpServer {
            label: "dmcp".to_owned(),
            description: None,
            url: "https://dmcp.example/mcp".to_owned(),
            require_approval: "always".to_owned(),
        };
        assert_eq!(
            server.to_tool(),
            json!({"type": "mcp", "server_label": "dmcp",
                   "server_url": "https://dmcp.example/mcp", "require_approval": "always"})
        );
    }
}
