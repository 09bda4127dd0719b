mod decide;
mod list;
mod show;

use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand};

use super::{CliError, SocketOption, decode, print, print_json};

/// `pillion approvals`
#[derive(Debug, Args)]
pub(super) struct Approvals {
    #[command(flatten)]
    socket: SocketOption,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Lists the calls that wait for approval, the newest first
    List(list::List),
    /// Shows a call and its decision
    Show(show::Show),
    /// Approves a call, which then runs once with the arguments shown, or with changed arguments
    Approve(decide::Approve),
    /// Denies a call
    Deny(decide::Decide),
}

impl Approvals {
    pub(super) fn apply(self) -> Result<ExitCode, CliError> {
        let client = self.socket.client(Duration::from_secs(30));
        match self.command {
            Command::List(list) => list.apply(&client),
            Command::Show(show) => show.apply(&client),
            Command::Approve(approve) => approve.apply(&client),
            Command::Deny(decide) => decide.deny(&client),
        }
    }
}
