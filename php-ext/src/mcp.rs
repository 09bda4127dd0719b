//! The part of the MCP client that the classes `MCPSSEClient` and `McpClient` share.
//!
//! A PHP object has a `ServerLink` to its server. The connection behind the link belongs to the
//! process, and objects with the same configuration share it. The PHP values (callbacks, a logger)
//! belong to the object and are stored in its `HiddenValue`, which the garbage collector can
//! traverse. The `MessageRouter` of a connection passes the server's requests to the objects: the
//! router lists the waiting PHP threads, and holds each request until a waiting thread takes the
//! request.

mod connection;
mod credentials;
pub mod hooks;
mod link;
mod php_prompt;
mod request_handlers;
pub mod require_approval;
mod router;
mod server;
mod server_job;
pub mod sessions;
mod store_key;
mod token_slot;
pub mod tool_list;
mod waiting_client;

pub use connection::{ClientCapabilities, McpConnection};
pub use link::{ProgressReceiver, ServerLink, decode_message, read_arguments};
pub use request_handlers::describe_type;
pub use require_approval::RequireApproval;
pub use router::CallHandle;
pub use server::{Server, redact_message};
pub use server_job::ServerJob;
pub use waiting_client::WaitingClient;
