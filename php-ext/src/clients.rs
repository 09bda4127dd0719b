//! The PHP classes of MCP clients, and of the calls and streams of these clients.

pub mod cancellation_token;
pub mod client_hooks;
pub mod mcp_client;
pub mod mcp_sse_client;
pub mod stream_iterator;
pub mod tool_stream;
