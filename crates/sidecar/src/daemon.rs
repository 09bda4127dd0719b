//! Runs the daemon from start-up to shutdown.

mod assembly;
mod signals;
mod sockets;

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pillion_core::registry::RegistryError;
use pillion_core::store::StoreError;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::task::AbortOnDropHandle;

use crate::logging::LogControl;
use crate::reload::{FileStamps, LoadedConfig, Reloader, Source};
use crate::server::{self, ServingThreads, Stop};
use crate::service_manager;
use crate::socket::SocketError;
pub use assembly::Assembly;
use pillion_config::ConfigError;
use pillion_gateway::access::AccessError;
use pillion_gateway::state::State;
use pillion_management::servers::Servers;
pub use signals::StopSignals;
use sockets::Sockets;

/// Time for which keep-alive connections may send a last request if a successor already serves the
/// sockets.
const LAST_REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// Time for which keep-alive connections may send a last request if the next process starts only
/// after this one has ended.
const RESTART_LAST_REQUEST_TIMEOUT: Duration = Duration::from_millis(500);

/// The reason why the daemon cannot run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DaemonError {
    /// A configuration file appears to be incompletely written.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The sockets cannot be served.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// The store cannot be opened.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The servers of the store cannot be read, or the vault cannot be opened.
    #[error(transparent)]
    Servers(Box<dyn std::error::Error + Send + Sync>),
    /// The access rules cannot be applied.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// The built-in tools cannot be registered.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// The threads that serve connections cannot be created.
    #[error("cannot start the server threads: {0}")]
    Threads(#[source] io::Error),
    /// Signal handlers cannot be installed.
    #[error("cannot listen for signals: {0}")]
    Signals(#[source] io::Error),
    /// The running sidecar could not be notified that this process is ready to take over.
    #[error("cannot take over from the running sidecar: {0}")]
    ConfirmTakeOver(#[source] io::Error),
}

/// The parameters of `pillion serve`.
pub struct Daemon {
    /// The configuration that the sidecar starts with.
    pub loaded_config: LoadedConfig,
    /// The source of the configuration, for reloads.
    pub source: Source,
    /// The state of the configuration files before `loaded_config` was read.
    pub initial_stamps: FileStamps,
    /// Changes the log level on a reload.
    pub log: LogControl,
    /// Whether to take over the sockets of a running sidecar.
    pub take_over: bool,
}

impl Daemon {
    /// Serves requests until the daemon receives a signal or a successor takes over.
    pub async fn run(mut self) -> Result<(), DaemonError> {
        let stop_signals = StopSignals::listen().map_err(DaemonError::Signals)?;
        let hangup_signals = signal(SignalKind::hangup()).map_err(DaemonError::Signals)?;
        // Errors in the access rules are reported before any socket or file is opened.
        self.loaded_config.resolve_access(None)?;
        let config = &self.loaded_config.config;
        let (mut sockets, listeners) = Sockets::open(config, self.take_over).await?;
        if sockets.confirmation.is_some() {
            // After a takeover, all configuration files are checked for unfinished writes, because
            // this process does not know which versions the predecessor has read.
            self.loaded_config.check_complete()?;
        }
        // The store is opened after the socket. Because only one sidecar can own the socket, calls
        // that are unfinished in the store then belong to a predecessor on this socket.
        let state = State::open(config, &sockets.path, &sockets.predecessors).await?;
        let access = self
            .loaded_config
            .resolve_access(Some(&(state.store() as _)))?;
        let applied_config = &self.loaded_config.config;
        let Assembly {
            current_app,
            servers,
            mut predecessor_calls,
        } = Assembly::build(applied_config, &state, access).await?;
        let servers_to_refresh = Arc::clone(&servers);
        let grace = applied_config.shutdown.grace;
        let mut threads = ServingThreads::start().map_err(DaemonError::Threads)?;
        let reloader = Reloader::new(
            self.source,
            self.loaded_config,
            current_app.clone(),
            servers,
            self.log,
        );
        let reload_task = tokio::spawn(reloader.run(self.initial_stamps, hangup_signals));
        tracing::info!(
            socket = %sockets.path.display(), version = env!("CARGO_PKG_VERSION"),
            "Listening on {}", sockets.path.display()
        );
        let count_calls_task = match sockets.confirmation.take() {
            Some(confirmation) => {
                let outcome = confirmation.confirm().await;
                outcome.map_err(DaemonError::ConfirmTakeOver)?;
                service_manager::notify_ready_as_main_process();
                tokio::spawn(apply_predecessor_changes(servers_to_refresh));
                state.watch(&sockets.predecessors);
                tokio::spawn(async move {
                    predecessor_calls.finish().await;
                    predecessor_calls.follow_predecessor().await;
                })
            }
            None => {
                service_manager::notify_ready();
                tokio::spawn(async move { predecessor_calls.finish().await })
            }
        };
        let counting_task = AbortOnDropHandle::new(count_calls_task);
        // The connection to the successor and the finishing lock stay open until this process ends:
        // when they close, the successor, or any later sidecar, detects that this process has
        // finished its calls.
        let mut successor_connection = None;
        let mut finishing_lock = None;
        let mut stopping_since = None;
        let shutdown = async {
            let stop = tokio::select! {
                () = stop_signals.wait_for_first() => {
                    service_manager::notify_stopping();
                    sockets.close()
                }
                connection = sockets.hand_over(state.run_id()) => {
                    tracing::info!("Another sidecar has taken over");
                    successor_connection = Some(connection);
                    finishing_lock = sockets.release(state.run_id());
                    Stop::WithSuccessor { last_request_timeout: LAST_REQUEST_TIMEOUT }
                }
            };
            stopping_since = Some(Instant::now());
            stop
        };
        let outcome = server::serve(listeners, &current_app, &mut threads, grace, shutdown).await;
        reload_task.abort();
        // The grace period of the server also applies to calls that continue after their callers
        // have disconnected.
        let elapsed = stopping_since.map(|since| since.elapsed());
        let remaining_grace = grace.saturating_sub(elapsed.unwrap_or_default());
        let process = Arc::clone(current_app.app().process());
        process.finish_calls(remaining_grace).await;
        drop(counting_task);
        // Remaining tasks end before the store is closed, because these tasks may record calls.
        threads.end().await;
        if let Some(telemetry) = current_app.app().process().telemetry.clone() {
            telemetry.stop().await;
        }
        state.close().await;
        match successor_connection {
            Some(connection) => drop((connection, finishing_lock)),
            None => sockets.remove()?,
        }
        tracing::info!(cut_off = outcome.cut_off_connections, "Stopped");
        Ok(())
    }
}

/// Reads the servers from the store again, now and after the predecessor's last request, to apply
/// changes that the predecessor still accepted.
async fn apply_predecessor_changes(servers: Arc<Servers>) {
    for delay in [
        Duration::ZERO,
        LAST_REQUEST_TIMEOUT + RESTART_LAST_REQUEST_TIMEOUT,
    ] {
        tokio::time::sleep(delay).await;
        if let Err(error) = servers.refresh().await {
            tracing::warn!(
                %error,
                "Cannot load the MCP server changes that the previous sidecar accepted before it \
                 stopped"
            );
        }
    }
}
