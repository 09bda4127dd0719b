use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use nix::sys::stat::{Mode, umask};
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::{CliError, SocketOption};
use crate::config::Config;
use crate::socket::Socket;
use crate::state::State;
use crate::{logging, server, tools};

/// `pillion serve`
#[derive(Debug, Args)]
pub(super) struct Serve {
    /// The configuration file (TOML); without one, the defaults and the environment hold
    #[arg(long, env = "PILLION_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    socket: SocketOption,
}

impl Serve {
    pub(super) fn apply(self) -> Result<ExitCode, CliError> {
        // Before there is any other thread: whatever the sidecar makes is its user's alone
        // until it says otherwise.
        umask(Mode::from_bits_truncate(0o077));
        let mut config = Config::load(self.config.as_deref(), std::env::vars_os())?;
        if self.socket.socket.is_some() {
            config.socket.path = self.socket.socket;
        }
        logging::initialize(&config.log);
        // A tool that blocks its thread must not keep the process from ending.
        super::run_and_leave(serve(&config))
    }
}

async fn serve(config: &Config) -> Result<(), CliError> {
    let stop = StopSignals::listen().map_err(CliError::Signals)?;
    let default_path = pillion_client::default_socket_path();
    let path = config.socket.path.as_ref().unwrap_or(&default_path);
    let (listener, guard) = Socket::bind(path, config.socket.group.as_ref())
        .await?
        .into_parts();
    // With the socket: no two sidecars have one, and what is unfinished on it is the last's.
    let state = State::open(config, path).await?;
    let app = config.build(tools::registry()?, Some(state.clone()));
    tracing::info!(
        socket = %path.display(), version = env!("CARGO_PKG_VERSION"),
        "Listening on {}", path.display()
    );
    let grace = config.shutdown.grace;
    let drained = server::run(listener, app, grace, stop.first()).await;
    state.close().await;
    guard.remove()?;
    tracing::info!(cut_off = drained.cut_off, "Stopped");
    Ok(())
}

/// SIGTERM and SIGINT.
pub(super) struct StopSignals {
    terminate: Signal,
    interrupt: Signal,
}

impl StopSignals {
    pub(super) fn listen() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    /// Waits for the first signal. From then on a second one ends the process at once, for
    /// whoever does not want to wait for the calls in flight.
    pub(super) async fn first(mut self) {
        self.next().await;
        tokio::spawn(async move {
            self.next().await;
            tracing::warn!("A second signal: ending at once");
            std::process::exit(1);
        });
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
