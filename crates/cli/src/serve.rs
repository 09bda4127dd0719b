use std::path::PathBuf;

use clap::Args;

use super::dispatch::{CommandResult, RunCommand};
use super::process::{restrict_new_files, run_without_joining};
use super::sidecar::SocketOption;
use pillion_sidecar::daemon::Daemon;
use pillion_sidecar::logging;
use pillion_sidecar::reload::Source;

/// Runs the sidecar until SIGTERM or SIGINT
#[derive(Debug, Args)]
#[command(after_help = examples![
    "pillion serve",
    "pillion serve --config /etc/pillion/pillion.toml",
    "pillion serve --config /etc/pillion/pillion.toml --take-over",
])]
pub(super) struct ServeCommand {
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

impl RunCommand<()> for ServeCommand {
    fn run(self, (): &()) -> CommandResult {
        restrict_new_files();
        let source = Source {
            file: self.config,
            socket: self.socket.explicit_path(),
        };
        let (loaded_config, initial_stamps) = source.load_with_stamps()?;
        let log = logging::initialize(&loaded_config.config.log);
        let daemon = Daemon {
            loaded_config,
            source,
            initial_stamps,
            log,
            take_over: self.take_over,
        };
        // Remaining tasks are abandoned: a tool that blocks its thread must not keep the process
        // from exiting.
        run_without_joining(daemon.run())
    }
}
