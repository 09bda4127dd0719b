//! The sidecar: a daemon that runs tools for all processes of a host over a Unix socket.
//!
//! [`pillion_config`] reads the settings, [`pillion_gateway`] runs calls, [`socket`] creates the
//! Unix socket, and [`server`] serves [`routes`] until shutdown. The crate `pillion` has the
//! command line, which starts the sidecar with [`daemon`].
//!
//! ```no_run
//! use pillion_gateway::tools;
//! use pillion_sidecar::{app::App, server, socket::Socket};
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

pub mod app;
pub mod current_app;
pub mod daemon;
mod handover;
mod limits;
pub mod logging;
mod outbox;
pub mod reload;
pub mod routes;
pub mod server;
mod service_manager;
pub mod socket;
