//! The PHP classes of MCP clients (`McpClient` and `MCPSSEClient`), and the classes `ToolStream`
//! and `CancellationToken` for calls of the clients.

pub mod cancellation_token;
pub mod client_hooks;
pub mod mcp_client;
pub mod mcp_sse_client;
pub mod stream_iterator;
pub mod tool_stream;
