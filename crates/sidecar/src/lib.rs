//! The sidecar: a daemon that runs tools for all processes of a host over a Unix socket, and the
//! command line that starts and controls the daemon.
//!
//! [`pillion_config`] reads the settings, [`state`] keeps the data that outlives the process, [`socket`]
//! creates the Unix socket, [`server`] serves [`routes`] until shutdown, and [`cli`] is the program
//! `pillion`.
//!
//! ```no_run
//! use pillion::{app::App, server, socket::Socket, tools};
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
mod bridge;
mod calling_client;
mod chat;
pub mod cli;
mod client_text;
mod clock;
mod connections;
mod credentials;
pub mod current_app;
mod daemon;
mod declared_tools;
mod events;
mod executors;
mod handover;
mod idempotency;
mod instance;
mod limits;
pub mod logging;
mod mcp_server;
mod metrics;
mod models;
mod packs;
mod pins;
mod predecessors;
pub mod problem;
mod process;
mod process_locks;
mod reload;
mod results;
pub mod routes;
pub mod server;
mod servers;
mod service_manager;
pub mod socket;
pub mod state;
mod telemetry;
mod timestamp;
mod tool_keys;
pub mod tools;
mod upstream;
mod visibility;
#[cfg_attr(not(feature = "wasm"), path = "wasm_tools/absent.rs")]
mod wasm_tools;
mod workers;
