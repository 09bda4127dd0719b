use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use nix::sys::stat::{Mode, umask};

use super::{CliError, SocketOption};
use pillion_sidecar::daemon::Daemon;
use pillion_sidecar::logging;
use pillion_sidecar::reload::Source;

/// `pillion serve`
#[derive(Debug, Args)]
pub(super) struct Serve {
    /// The configuration file (TOML), reloaded when it changes and on SIGHUP; without it, the
    /// defaults and the environment apply
    #[arg(long, env = "PILLION_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
    /// Takes over the sockets of a running sidecar, which finishes its calls and stops; no
    /// connection is refused in between
    #[arg(long)]
    take_over: bool,
    #[command(flatten)]
    socket: SocketOption,
}

impl Serve {
    pub(super) fn apply(self) -> Result<ExitCode, CliError> {
        // Set before any thread starts, so that new files are accessible only to the sidecar's user
        // unless a setting says otherwise.
        umask(Mode::from_bits_truncate(0o077));
        let source = Source {
            file: self.config,
            socket: self.socket.named(),
        };
        let (loaded, before) = source.load_with_stamps()?;
        let log = logging::initialize(&loaded.config.log);
        let daemon = Daemon {
            loaded,
            source,
            before,
            log,
            take_over: self.take_over,
        };
        // A tool that blocks its thread must not keep the process from exiting.
        super::run_without_joining(daemon.run())
    }
}
