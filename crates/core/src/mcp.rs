//! A client for MCP servers over HTTP, in every shape that is in use (requirements E1 to
//! E11).
//!
//! [`McpClient`] is what callers hold; [`McpTool`] makes one tool of a server a
//! [`Tool`](crate::tool::Tool) like any other. Below them: `connect` decides how a
//! server is spoken to, a session is an open connection, a transport carries messages, and
//! those stay raw JSON all the way, so that nothing a server says is lost.

mod client;
mod config;
mod connect;
mod error;
mod http;
mod jsonrpc;
mod protocol_version;
mod remote_tool;
mod session;
mod sse;
mod transport;

pub use client::McpClient;
pub use config::{
    Authentication, Handshake, Limits, ServerConfig, ServerConfigError, TransportKind,
};
pub use error::{McpError, McpErrorKind, Wording};
pub use jsonrpc::RpcError;
pub use protocol_version::{Feature, ProtocolVersion, UnknownProtocolVersion};
pub use remote_tool::{McpTool, McpToolError};
pub use sse::{SseDecoder, SseError, SseEvent};
