use serde_json::{Value, json};

use super::Provider;
use crate::tool::JsonObject;

/// An MCP server that the provider calls by itself: an entry of `tools` in a request to
/// OpenAI's Responses (H1), or what Anthropic calls its MCP connector. Its tools then run at the provider and never come here as calls.
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

    /// The members of a request with which `provider` calls the server; they are lists, which grow
    /// with further servers. None where it does not call servers, or not as asked for: Anthropic asks
    /// nobody before it calls a tool.
    ///
    /// ```
    /// use pillion_core::provider::{NativeMcpServer, Provider};
    /// use serde_json::{Value, json};
    /// let dmcp = NativeMcpServer {
    ///     label: "dmcp".into(),
    ///     description: None,
    ///     url: "https://dmcp.example/mcp".into(),
    ///     require_approval: "never".into(),
    /// };
    /// assert_eq!(dmcp.to_members(Provider::Anthropic).map(Value::Object), Some(json!({
    ///     "mcp_servers": [{"type": "url", "name": "dmcp", "url": "https://dmcp.example/mcp"}],
    ///     "tools": [{"type": "mcp_toolset", "mcp_server_name": "dmcp"}],
    /// })));
    /// assert_eq!(dmcp.to_members(Provider::Google), None);
    /// ```
    #[must_use]
    pub fn to_members(&self, provider: Provider) -> Option<JsonObject> {
        let members = match provider {
            Provider::OpenAiResponses => vec![("tools", json!([self.to_tool()]))],
            Provider::Anthropic if self.require_approval == "never" => {
                let server = json!({"type": "url", "name": self.label, "url": self.url});
                let toolset = json!({"type": "mcp_toolset", "mcp_server_name": self.label});
                vec![
                    ("mcp_servers", json!([server])),
                    ("tools", json!([toolset])),
                ]
            }
            Provider::Anthropic | Provider::OpenAiChat | Provider::Google => return None,
        };
        let members = members.into_iter();
        Some(
            members
                .map(|(key, value)| (key.to_owned(), value))
                .collect(),
        )
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
        let members = server.to_members(Provider::OpenAiResponses).unwrap();
        assert_eq!(Value::Object(members), json!({"tools": [server.to_tool()]}));
        // Nobody could be asked there.
        assert_eq!(server.to_members(Provider::Anthropic), None);
        assert_eq!(server.to_members(Provider::OpenAiChat), None);
    }
}
