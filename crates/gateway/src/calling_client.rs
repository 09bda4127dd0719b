//! The MCP client that calls the sidecar: its messages and, while one of its requests runs, a
//! [`link`] back to the client. Code that handles a call uses the link to send messages to the
//! client without knowing the MCP server.

pub mod capabilities;
pub mod link;
pub mod listed_tool;
pub mod message;
mod objects;
