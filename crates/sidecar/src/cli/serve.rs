use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use nix::sys::stat::{Mode, umask};

use super::{CliError, SocketOption};
use crate::daemon::Daemon;
use crate::logging;
use crate::reload::Source;

/// `pillion serve`
#[derive(Debug, Args)]
pub(super) struct Serve {
    /// The configuration file (TOML); without one, the defaults and the environment hold.
    /// It is read again when it changes, and at SIGHUP
    #[arg(long, env = "PILLION_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
    /// Takes the sockets from the sidecar that serves them, which lets its calls end and stops;
    /// no connection is refused in between
    #[arg(long)]
    take_over: bool,
    #[command(flatten)]
    socket: SocketOption,
}

impl Serve {
    pub(super) fn apply(self) -> Result<ExitCode, CliError> {
        // Before there is any other thread: whatever the sidecar makes is its user's alone
        // until it says otherwise.
        umask(Mode::from_bits_truncate(0o077));
        let source = Source {
            file: self.config,
            socket: self.socket.named(),
        };
        let before = source.look();
        let config = source.load()?;
        let log = logging::initialize(&config.log);
        let daemon = Daemon {
            config,
            source,
            before,
            log,
            take_over: self.take_over,
        };
        // A tool that blocks its thread must not keep the process from ending.
        super::run_and_leave(daemon.run())
    }
}
