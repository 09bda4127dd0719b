//! What operators ask of a sidecar and change in it: MCP servers, approvals, pins and the call log.
//!
//! The REST API and the console both use these functions, so that both apply the same rules. A
//! function checks what the [`AccessGrant`](pillion_gateway::access::AccessGrant) of its caller may
//! see; whether the grant's scope permits the function at all is checked by the interface.

pub mod approvals;
pub mod calls;
pub mod error;
mod foreign_errors;
pub mod page;
pub mod parameter;
pub mod pins;
pub mod servers;
pub mod store;

pub use error::RequestError;
