//! The part of the MCP client that the classes `MCPSSEClient` and `McpClient` share.
//!
//! A PHP object has a `Link` to its server. The connection behind the link belongs to the process,
//! and objects with the same configuration share it. The PHP values (callbacks, a logger) belong to
//! the object: they are its hidden value, which the garbage collector can traverse. The `Desk` of a
//! connection connects the two: it lists the waiting PHP threads, and the server's requests wait
//! there until one of these threads takes them.

mod answers;
mod attendant;
mod connection;
mod credentials;
mod desk;
mod errand;
pub mod hooks;
mod link;
pub mod require_approval;
mod server;
pub mod tool_list;

pub use answers::kind;
pub use attendant::Attendant;
pub use connection::{Connection, Offers};
pub use desk::Line;
pub use errand::Errand;
pub use link::{Link, Reported, arguments, readable};
pub use require_approval::RequireApproval;
pub use server::{Server, without_value};
