//! The sidecar's state and logic between clients and tools, without its sockets and routes.
//!
//! [`Gateway`] joins the parts and looks up tools for callers.
//!
//! - Clients: [`access`] decides what a client may do, [`credentials`] and [`tool_keys`] hold the
//!   secrets, [`visibility`] decides which tools a user may see.
//! - Tools: [`tools`] lists the built-in tools, [`upstream`] connects to MCP servers, [`workers`]
//!   run tools in other processes; [`declared_tools`] and [`packs`] come from files, [`wasm_tools`]
//!   from a directory of WebAssembly components.
//! - Calls: [`approvals`], [`idempotency`], [`results`], [`calling_client`]; [`accounts`] limit the
//!   requests that continue without their clients.
//! - Operation: [`state`] is the data that outlives the process; [`events`], [`metrics`] and
//!   [`telemetry`] report what happens.

pub mod access;
pub mod accounts;
pub mod approvals;
pub mod calling_client;
pub mod client_text;
pub mod connections;
pub mod credentials;
pub mod declared_tools;
pub mod events;
pub mod finishing;
mod gateway;
pub mod idempotency;
pub mod instance;
pub mod metrics;
pub mod models;
pub mod packs;
pub mod pins;
pub mod predecessors;
pub mod problem;
pub mod process;
pub mod process_locks;
pub mod results;
pub mod rpc_connection;
pub mod state;
pub mod telemetry;
#[cfg(test)]
mod test_support;
pub mod timestamp;
pub mod tool_keys;
pub mod tools;
pub mod upstream;
pub mod visibility;
pub mod waiting_bytes;
#[cfg_attr(not(feature = "wasm"), path = "wasm_tools/absent.rs")]
pub mod wasm_tools;
pub mod workers;

pub use gateway::{
    Gateway, GatewayParts, MissingTool, NameScope, ReloadScope, Resolution, VisibleTools,
};
