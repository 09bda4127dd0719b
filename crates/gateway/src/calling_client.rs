//! The MCP client that calls the sidecar: the messages that it exchanges with the sidecar and,
//! while one of its requests runs, a [`link`] for sending messages back to the client. Code that
//! handles a tool call uses the link, and therefore does not depend on the MCP endpoint.

pub mod capabilities;
pub mod link;
pub mod listed_tool;
pub mod message;
mod objects;
