//! Tools, calls and results in the format of a provider.

use pillion_core::tool::{JsonObject, ToolCall, ToolDefinition, ToolResult};
use serde_json::{Map, Value, json};

use crate::node::{JsonFault, Node};
use crate::{NativeCalls, NativeMcpServer, Provider, ProviderMembers, StrictFlag, TranscriptPart};

/// The format of one provider for tools, calls and results. Functions that parse a body fail if the
/// body lacks a required part.
pub trait ToolFormat: Send + Sync {
    /// Returns the provider of this API.
    fn provider(&self) -> Provider;

    /// Formats the definition of a tool ([`format_tool`](crate::format_tool)). `tool_count` is
    /// the number of tools of the request.
    fn format_tool(
        &self,
        tool: &ToolDefinition,
        strict_flag: StrictFlag,
        tool_count: usize,
    ) -> Value;

    /// Parses the calls in a response body ([`parse_tool_calls`](crate::parse_tool_calls)).
    fn parse_tool_calls(&self, body: &Node<'_>) -> Result<Vec<ToolCall>, JsonFault>;

    /// Returns all text blocks, joined, without thoughts.
    fn text(&self, body: &Node<'_>) -> Result<String, JsonFault>;

    /// Returns the refusal that is separate from the text.
    fn refusal(&self, _body: &Node<'_>) -> Result<String, JsonFault> {
        Ok(String::new())
    }

    /// Converts a response to messages ([`assistant_messages`](crate::assistant_messages)).
    fn assistant_messages(&self, body: &Node<'_>) -> Result<Vec<Value>, JsonFault>;

    /// Formats the results of calls, of which there is at least one
    /// ([`format_results`](crate::format_results)).
    fn format_results(&self, results: &[ToolResult]) -> Vec<Value>;

    /// Returns the parts of a message of the conversation ([`transcript`](crate::transcript())).
    fn transcript(&self, message: &Value) -> Vec<TranscriptPart>;

    /// Returns JSON pointers to the tool results in a message of the conversation.
    fn result_pointers(&self, message: &Value) -> Vec<String>;

    /// Returns a result with this text, in place of a result that is omitted.
    fn text_result(&self, text: &str) -> Value {
        json!(text)
    }

    /// Returns whether the provider accepts an item of this media type in a result.
    fn accepts_media(&self, _media_type: &str) -> bool {
        false
    }

    /// Returns JSON pointers to the images, audio and files of tool results in a message of the
    /// conversation, as [`format_results`](crate::format_results) writes them.
    fn media_pointers(&self, _message: &Value) -> Vec<String> {
        Vec::new()
    }

    /// Returns the part of a message for a text.
    fn text_part(&self, text: &str) -> Value {
        json!({"type": "text", "text": text})
    }

    /// Returns the members of a request by which the provider calls the server itself, including
    /// the server's token, if there is one. The members are lists, to which further servers can be
    /// added. `None` if the provider does not call MCP servers, or does not support the required
    /// approvals: Anthropic never requests approval.
    ///
    /// ```
    /// use pillion_providers::{NativeApproval, NativeMcpServer, Provider};
    /// use serde_json::{Value, json};
    /// let dmcp = NativeMcpServer {
    ///     require_approval: NativeApproval::Never,
    ///     ..NativeMcpServer::new("dmcp", "https://dmcp.example/mcp")
    /// };
    /// let members = Provider::Anthropic.api().native_members(&dmcp);
    /// assert_eq!(members.map(Value::Object), Some(json!({
    ///     "mcp_servers": [{"type": "url", "name": "dmcp", "url": "https://dmcp.example/mcp"}],
    ///     "tools": [{"type": "mcp_toolset", "mcp_server_name": "dmcp"}],
    /// })));
    /// assert_eq!(Provider::Google.api().native_members(&dmcp), None);
    /// ```
    fn native_members(&self, _server: &NativeMcpServer) -> Option<JsonObject> {
        None
    }

    /// Returns whether the provider can request approval for calls of MCP tools that it makes
    /// itself.
    fn requests_approval(&self) -> bool {
        false
    }

    /// Parses the calls of MCP tools that the provider made itself or requests approval for
    /// ([`native_calls`](crate::native_calls)).
    fn native_calls(&self, _body: &Node<'_>) -> Result<NativeCalls, JsonFault> {
        Ok(NativeCalls::default())
    }

    /// Formats approval decisions ([`format_permits`](crate::format_permits)).
    fn format_permits(&self, _results: &[ToolResult]) -> Vec<Value> {
        Vec::new()
    }

    /// Returns the error in a body or an event, if the body or the event reports one.
    fn error<'a>(&self, body: &'a Value) -> Option<&'a Value> {
        body.get("error").filter(|error| !error.is_null())
    }

    /// Extracts the provider-specific members of a valid response; `indexes` are the positions of
    /// the calls among the response's function calls.
    fn provider_members(&self, _body: &Value, indexes: &[usize]) -> ProviderMembers {
        ProviderMembers {
            message: Map::new(),
            calls: vec![Map::new(); indexes.len()],
        }
    }
}

/// Formats the tools of a request.
pub(crate) fn format_all<'a>(
    format: &(impl ToolFormat + ?Sized),
    tools: impl IntoIterator<Item = &'a ToolDefinition>,
    strict_flag: StrictFlag,
) -> Vec<Value> {
    let tools: Vec<_> = tools.into_iter().collect();
    let format_tool = |tool: &&ToolDefinition| format.format_tool(tool, strict_flag, tools.len());
    tools.iter().map(format_tool).collect()
}
