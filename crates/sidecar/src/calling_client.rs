//! The MCP client that calls us: the messages that it sends and gets, and, while a request of
//! its runs, the way back to it. Who makes a call can say something to its client by this
//! [`link`], and needs to know nothing of the MCP server.

pub(crate) mod capabilities;
pub(crate) mod link;
pub(crate) mod listed_tool;
pub(crate) mod message;
