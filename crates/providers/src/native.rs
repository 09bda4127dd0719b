//! MCP servers that a provider calls itself, and the calls of their tools.

use pillion_core::tool::{ErrorCode, ToolCall, ToolResult};
use secrecy::SecretString;
use serde_json::Value;

use crate::node::{JsonFault, Node, arguments};

#[cfg(test)]
mod tests;

/// An MCP server that the provider calls itself. Becomes an entry of `tools` in a request to
/// OpenAI's Responses API, or of Anthropic's MCP connector. The provider calls the server's tools,
/// so these calls do not reach the executor.
///
/// ```
/// use pillion_providers::{NativeApproval, NativeMcpServer, Provider};
/// use serde_json::{Value, json};
/// let dmcp = NativeMcpServer {
///     description: Some("Rolls dice".into()),
///     require_approval: NativeApproval::Never,
///     ..NativeMcpServer::new("dmcp", "https://dmcp-server.deno.dev/sse")
/// };
/// let members = Provider::OpenAiResponses.api().native_members(&dmcp);
/// assert_eq!(members.map(Value::Object), Some(json!({"tools": [{
///     "type": "mcp",
///     "server_label": "dmcp",
///     "server_description": "Rolls dice",
///     "server_url": "https://dmcp-server.deno.dev/sse",
///     "require_approval": "never",
/// }]})));
/// ```
#[derive(Debug, Clone)]
pub struct NativeMcpServer {
    /// The name by which the model and reported calls refer to the server.
    pub label: String,
    /// The description of the server for the model.
    pub description: Option<String>,
    /// The URL of the server, which the provider must be able to reach.
    pub url: String,
    /// The calls for which the provider requests approval. Default: all calls.
    pub require_approval: NativeApproval,
    /// The only tools that the model may call, by their names on the server; `None` means all.
    pub allowed_tools: Option<Vec<String>>,
    /// The bearer token for the server, which the provider receives.
    pub token: Option<SecretString>,
}

/// The calls for which a provider requests approval.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum NativeApproval {
    /// The provider never requests approval for calls.
    Never,
    /// The provider requests approval for all calls.
    #[default]
    Always,
    /// The provider requests approval for all calls except calls of these tools.
    Except(Vec<String>),
}

impl NativeMcpServer {
    /// Creates a server without description and token. The model may call all tools of the server,
    /// each call with approval.
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
}

/// Calls of MCP tools that the provider makes itself ([`NativeMcpServer`]),
/// as reported in a response.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct NativeCalls {
    /// Calls that need approval; [`format_permits`](crate::format_permits) formats the decisions.
    pub permission_requests: Vec<NativeCall>,
    /// Finished calls, each with its result.
    pub finished_calls: Vec<(NativeCall, ToolResult)>,
    /// Labels of the servers whose tools the provider could not list.
    pub unlisted_servers: Vec<String>,
}

/// A call of an MCP server's tool.
#[derive(Debug, Clone, PartialEq)]
pub struct NativeCall {
    /// The label of the MCP server.
    pub server: String,
    /// The call, in which the tool has its name on the server.
    pub call: ToolCall,
}

impl NativeCall {
    /// Parses a call; `server_key` and `input_key` are the names of the members with the server's
    /// label and the arguments.
    pub(crate) fn parse(
        node: &Node<'_>,
        server_key: &str,
        input_key: &str,
    ) -> Result<Self, JsonFault> {
        Ok(Self {
            server: node.required(server_key)?.text()?.to_owned(),
            call: ToolCall::new(
                node.required("id")?.text()?,
                node.required("name")?.text()?,
                arguments(node.optional(input_key)?),
            ),
        })
    }

    pub(crate) fn to_success(&self, result: Value) -> ToolResult {
        ToolResult::success(&self.call.id, &self.call.name, result)
    }

    pub(crate) fn to_failure(&self, result: Value, message: &str) -> ToolResult {
        let ToolCall { id, name, .. } = &self.call;
        ToolResult {
            result,
            ..ToolResult::failure(id, name, ErrorCode::InternalError, message)
        }
    }
}
