//! MCP servers as the PHP classes see them: what `MCPSSEClient` and `McpClient` share.
//!
//! A PHP object has a `Link` to its server. The connection behind it belongs to the
//! process, and objects of the same configuration share it; what is PHP's (callbacks, a
//! logger) belongs to the object, as its hidden value, where the garbage collector sees it. The `Desk` of a connection brings the two together: it knows which PHP threads wait,
//! and what the server asks waits there for one of them.

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
