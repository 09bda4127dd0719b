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
use crate::servers::Servers;
use crate::service_manager;
use crate::socket::SocketError;
pub use assembly::Assembly;
use pillion_config::ConfigError;
use pillion_gateway::access::AccessError;
use pillion_gateway::state::State;
pub use signals::StopSignals;
use sockets::Sockets;

/// How long keep-alive connections may send a last request: if a successor already serves
/// (`LAST_REQUEST_TIMEOUT`), and if the next process starts only after this one has ended.
const LAST_REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
const RESTART_LAST_REQUEST_TIMEOUT: Duration = Duration::from_millis(500);

/// Why the daemon cannot run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DaemonError {
    /// A file of the configuration looks like an unfinished write.
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
    /// The running sidecar could not be notified that this one is ready.
    #[error("cannot take over from the running sidecar: {0}")]
    Confirm(#[source] io::Error),
}

/// The parameters of `pillion serve`.
pub struct Daemon {
    /// The configuration that the sidecar starts with.
    pub loaded: LoadedConfig,
    /// The source of the configuration, for reloads.
    pub source: Source,
    /// The state of the configuration files before `loaded` was read.
    pub before: FileStamps,
    /// Changes the log level at a reload.
    pub log: LogControl,
    /// Whether to take over the sockets of a running sidecar.
    pub take_over: bool,
}

impl Daemon {
    /// Serves until a signal or a successor ends the daemon.
    pub async fn run(mut self) -> Result<(), DaemonError> {
        let stop = StopSignals::listen().map_err(DaemonError::Signals)?;
        let hangup = signal(SignalKind::hangup()).map_err(DaemonError::Signals)?;
        // Errors in the access rules are reported before any socket or file is opened.
        self.loaded.resolve_access(None)?;
        let config = &self.loaded.config;
        let (mut sockets, listeners) = Sockets::open(config, self.take_over).await?;
        if sockets.confirmation.is_some() {
            // This process does not know which files the predecessor has read.
            self.loaded.check_complete()?;
        }
        // The store is opened after the socket, which only one sidecar can own: calls that are
        // unfinished in the store then belong to a predecessor on this socket.
        let state = State::open(config, &sockets.path, &sockets.predecessors).await?;
        let access = self.loaded.resolve_access(Some(&(state.store() as _)))?;
        let config = &self.loaded.config;
        let Assembly {
            current_app,
            servers,
            mut past_calls,
        } = Assembly::build(config, &state, access).await?;
        let caught_up = Arc::clone(&servers);
        let grace = config.shutdown.grace;
        let mut threads = ServingThreads::start().map_err(DaemonError::Threads)?;
        let reloader = Reloader::new(
            self.source,
            self.loaded,
            current_app.clone(),
            servers,
            self.log,
        );
        let reloads = tokio::spawn(reloader.run(self.before, hangup));
        tracing::info!(
            socket = %sockets.path.display(), version = env!("CARGO_PKG_VERSION"),
            "Listening on {}", sockets.path.display()
        );
        let count_calls = match sockets.confirmation.take() {
            Some(confirmation) => {
                confirmation.confirm().await.map_err(DaemonError::Confirm)?;
                service_manager::ready_as_main_process();
                tokio::spawn(apply_predecessor_changes(caught_up));
                state.watch(&sockets.predecessors);
                tokio::spawn(async move {
                    past_calls.finish().await;
                    past_calls.follow().await;
                })
            }
            None => {
                service_manager::ready();
                tokio::spawn(async move { past_calls.finish().await })
            }
        };
        let counting = AbortOnDropHandle::new(count_calls);
        // Both stay open until this process ends. Their end tells the successor, or any later
        // sidecar, that this process has finished its calls.
        let mut successor_connection = None;
        let mut finishing = None;
        let mut stopping_since = None;
        let shutdown = async {
            let stop = tokio::select! {
                () = stop.first() => {
                    service_manager::stopping();
                    sockets.close()
                }
                connection = sockets.hand_over(state.run_id()) => {
                    tracing::info!("Another sidecar has taken over");
                    successor_connection = Some(connection);
                    finishing = sockets.leave(state.run_id());
                    Stop::Continued { last_requests: LAST_REQUEST_TIMEOUT }
                }
            };
            stopping_since = Some(Instant::now());
            stop
        };
        let drained = server::serve(listeners, &current_app, &mut threads, grace, shutdown).await;
        reloads.abort();
        // Calls that continue after their callers have disconnected share the grace period.
        let left = stopping_since.map_or(grace, |since| grace.saturating_sub(since.elapsed()));
        current_app.app().process().finish_calls(left).await;
        drop(counting);
        // Remaining tasks end before the store is closed, because they may record calls.
        threads.end().await;
        if let Some(telemetry) = current_app.app().process().telemetry.clone() {
            telemetry.stop().await;
        }
        state.close().await;
        match successor_connection {
            Some(connection) => drop((connection, finishing)),
            None => sockets.remove()?,
        }
        tracing::info!(cut_off = drained.cut_off, "Stopped");
        Ok(())
    }
}

/// Applies the server changes that the previous sidecar accepted until its last request.
async fn apply_predecessor_changes(servers: Arc<Servers>) {
    for wait in [
        Duration::ZERO,
        LAST_REQUEST_TIMEOUT + RESTART_LAST_REQUEST_TIMEOUT,
    ] {
        tokio::time::sleep(wait).await;
        if let Err(error) = servers.refresh().await {
            tracing::warn!(
                %error,
                "Cannot load the MCP server changes that the previous sidecar accepted before it \
                 stopped"
            );
        }
    }
}
