//! The sidecar: a daemon that runs tools for all processes of a host over a Unix socket.
//!
//! [`pillion_config`] reads the settings, [`state`] keeps the data that outlives the process,
//! [`socket`] creates the Unix socket, and [`server`] serves [`routes`] until shutdown. The crate
//! `pillion` has the command line, which starts the sidecar with [`daemon`].
//!
//! ```no_run
//! use pillion_sidecar::{app::App, server, socket::Socket, tools};
//! use pillion_config::Config;
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let config = Config::default();
//! let app = App::build(&config, tools::registry()?, None);
//! let socket = Socket::bind("/tmp/pillion/pillion.sock".as_ref(), None).await?;
//! let (listener, guard) = socket.into_parts();
//! let until_ctrl_c = async { drop(tokio::signal::ctrl_c().await) };
//! server::run(listener, app, config.shutdown.grace, until_ctrl_c).await?;
//! guard.remove()?;
//! # Ok(()) }
//! ```

pub mod access;
pub mod app;
mod approvals;
pub mod bridge;
mod calling_client;
mod chat;
mod client_text;
mod clock;
mod connections;
pub mod credentials;
pub mod current_app;
pub mod daemon;
mod declared_tools;
mod events;
mod executors;
mod handover;
mod idempotency;
mod instance;
mod limits;
pub mod logging;
pub mod mcp_server;
mod metrics;
mod models;
mod packs;
pub mod pins;
mod predecessors;
pub mod problem;
mod process;
mod process_locks;
pub mod reload;
mod results;
pub mod routes;
pub mod server;
pub mod servers;
mod service_manager;
pub mod socket;
pub mod state;
mod telemetry;
pub mod timestamp;
mod tool_keys;
pub mod tools;
mod upstream;
pub mod visibility;
#[cfg_attr(not(feature = "wasm"), path = "wasm_tools/absent.rs")]
mod wasm_tools;
mod workers;
