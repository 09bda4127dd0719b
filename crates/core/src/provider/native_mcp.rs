use secrecy::{ExposeSecret, SecretString};
use serde_json::{Map, Value, json};

use super::Provider;
use crate::tool::JsonObject;

/// An MCP server that the provider calls itself: an entry of `tools` in a request to OpenAI's
/// Responses API, or of Anthropic's MCP connector. Its tools run at the provider, so their calls do
/// not reach the executor.
///
/// ```
/// use pillion_core::provider::{NativeApproval, NativeMcpServer};
/// use serde_json::json;
/// let dmcp = NativeMcpServer {
///     description: Some("Rolls dice".into()),
///     require_approval: NativeApproval::Never,
///     ..NativeMcpServer::new("dmcp", "https://dmcp-server.deno.dev/sse")
/// };
/// assert_eq!(dmcp.to_tool(), json!({
///     "type": "mcp",
///     "server_label": "dmcp",
///     "server_description": "Rolls dice",
///     "server_url": "https://dmcp-server.deno.dev/sse",
///     "require_approval": "never",
/// }));
/// ```
#[derive(Debug, Clone)]
pub struct NativeMcpServer {
    /// The name of the server for the model and in calls.
    pub label: String,
    /// The description of the server for the model.
    pub description: Option<String>,
    /// The URL of the server, which the provider must be able to reach.
    pub url: String,
    /// Which calls the provider requests approval for. Default: all.
    pub require_approval: NativeApproval,
    /// The only tools that the model may call, by their names on the server; `None` means all.
    pub allowed_tools: Option<Vec<String>>,
    /// The bearer token for the server, which the provider receives.
    pub token: Option<SecretString>,
}

/// Which calls a provider requests approval for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum NativeApproval {
    /// No calls.
    Never,
    /// All calls.
    #[default]
    Always,
    /// All calls except those of these tools.
    Except(Vec<String>),
}

impl NativeMcpServer {
    /// Creates a server without description and token, whose tools may all be called, each call
    /// with approval.
    #[must_use]
    pub fn new(label: impl Into<String>, url: impl Into<String>) -> Self {
        Self {
            label: label.into(),
            description: None,
            url: url.into(),
            require_approval: NativeApproval::Always,
            allowed_tools: None,
            token: None,
        }
    }

    /// Returns the entry of `tools`, including the token, if there is one. Empty members are
    /// omitted.
    #[must_use]
    pub fn to_tool(&self) -> Value {
        let mut tool = json!({"type": "mcp", "server_label": self.label});
        if let Some(description) = &self.description {
            tool["server_description"] = json!(description);
        }
        tool["server_url"] = json!(self.url);
        if let Some(token) = &self.token {
            tool["authorization"] = json!(token.expose_secret());
        }
        if let Some(names) = &self.allowed_tools {
            tool["allowed_tools"] = json!(names);
        }
        tool["require_approval"] = match &self.require_approval {
            NativeApproval::Never => json!("never"),
            NativeApproval::Always => json!("always"),
            NativeApproval::Except(names) => json!({"never": {"tool_names": names}}),
        };
        tool
    }

    /// Returns the members of a request by which `provider` calls the server, including the token,
    /// if there is one. The members are lists, to which further servers can be added. `None` if the
    /// provider does not call MCP servers, or does not support the required approvals: Anthropic
    /// never requests approval.
    ///
    /// ```
    /// use pillion_core::provider::{NativeApproval, NativeMcpServer, Provider};
    /// use serde_json::{Value, json};
    /// let dmcp = NativeMcpServer {
    ///     require_approval: NativeApproval::Never,
    ///     ..NativeMcpServer::new("dmcp", "https://dmcp.example/mcp")
    /// };
    /// assert_eq!(dmcp.to_members(Provider::Anthropic).map(Value::Object), Some(json!({
    ///     "mcp_servers": [{"type": "url", "name": "dmcp", "url": "https://dmcp.example/mcp"}],
    ///     "tools": [{"type": "mcp_toolset", "mcp_server_name": "dmcp"}],
    /// })));
    /// assert_eq!(dmcp.to_members(Provider::Google).map(Value::Object), None);
    /// ```
    #[must_use]
    pub fn to_members(&self, provider: Provider) -> Option<JsonObject> {
        let members = match provider {
            Provider::OpenAiResponses => vec![("tools", json!([self.to_tool()]))],
            Provider::Anthropic if self.require_approval == NativeApproval::Never => vec![
                ("mcp_servers", json!([self.to_connection()])),
                ("tools", json!([self.to_toolset()])),
            ],
            Provider::Anthropic | Provider::OpenAiChat | Provider::Google => return None,
        };
        let members = members.into_iter();
        Some(
            members
                .map(|(key, value)| (key.to_owned(), value))
                .collect(),
        )
    }

    /// Returns Anthropic's entry of `mcp_servers`.
    fn to_connection(&self) -> Value {
        let mut server = json!({"type": "url", "name": self.label, "url": self.url});
        if let Some(token) = &self.token {
            server["authorization_token"] = json!(token.expose_secret());
        }
        server
    }

    /// Returns the corresponding entry of Anthropic's `tools`.
    fn to_toolset(&self) -> Value {
        let mut toolset = json!({"type": "mcp_toolset", "mcp_server_name": self.label});
        if let Some(names) = &self.allowed_tools {
            let enabled = names
                .iter()
                .map(|name| (name.clone(), json!({"enabled": true})));
            toolset["default_config"] = json!({"enabled": false});
            toolset["configs"] = Value::Object(enabled.collect::<Map<_, _>>());
        }
        toolset
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn h1_a_native_mcp_server_needs_no_description() {
        let server = NativeMcpServer::new("dmcp", "https://dmcp.example/mcp");
        assert_eq!(
            server.to_tool(),
            json!({"type": "mcp", "server_label": "dmcp",
                   "server_url": "https://dmcp.example/mcp", "require_approval": "always"})
        );
        let members = server.to_members(Provider::OpenAiResponses).unwrap();
        assert_eq!(Value::Object(members), json!({"tools": [server.to_tool()]}));
        // Anthropic cannot request approval.
        assert_eq!(server.to_members(Provider::Anthropic), None);
        assert_eq!(server.to_members(Provider::OpenAiChat), None);
    }

    #[test]
    fn h1_a_native_mcp_server_may_be_limited_to_some_of_its_tools() {
        let server = NativeMcpServer {
            allowed_tools: Some(vec!["roll".to_owned(), "wipe".to_owned()]),
            require_approval: NativeApproval::Except(vec!["roll".to_owned()]),
            token: Some("s3cret".into()),
            ..NativeMcpServer::new("dmcp", "https://dmcp.example/mcp")
        };
        assert_eq!(
            server.to_tool(),
            json!({"type": "mcp", "server_label": "dmcp",
                   "server_url": "https://dmcp.example/mcp",
                   "authorization": "s3cret",
                   "allowed_tools": ["roll", "wipe"],
                   "require_approval": {"never": {"tool_names": ["roll"]}}})
        );
        assert_eq!(server.to_members(Provider::Anthropic), None);
        let server = NativeMcpServer {
            allowed_tools: Some(vec!["roll".to_owned()]),
            require_approval: NativeApproval::Never,
            ..server
        };
        assert_eq!(
            server.to_members(Provider::Anthropic).map(Value::Object),
            Some(json!({
                "mcp_servers": [{"type": "url", "name": "dmcp", "url": "https://dmcp.example/mcp",
                                 "authorization_token": "s3cret"}],
                "tools": [{"type": "mcp_toolset", "mcp_server_name": "dmcp",
                           "default_config": {"enabled": false},
                           "configs": {"roll": {"enabled": true}}}],
            }))
        );
        assert!(!format!("{server:?}").contains("s3cret"));
    }
}
