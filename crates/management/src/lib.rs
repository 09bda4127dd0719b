//! What operators see and change in a sidecar: MCP servers, approvals, pins, access tokens, the
//! sessions of the console, the call log, and chats.
//!
//! The REST API and the console both use these functions, so that both apply the same rules. A
//! function checks what the [`AccessGrant`](pillion_gateway::access::AccessGrant) of its caller may
//! see; whether the grant's scope permits the function at all is checked by the interface. Only
//! [`tokens`] and [`browser_sessions`] check the scope, too.

pub mod approvals;
pub mod browser_sessions;
pub mod calls;
pub mod chat;
pub mod error;
mod foreign_errors;
pub mod page;
pub mod parameter;
pub mod pins;
pub mod registry;
pub mod saved_calls;
pub mod servers;
pub mod store;
pub mod tokens;

pub use error::RequestError;
