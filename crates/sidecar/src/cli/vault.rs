mod rotate;

use std::process::ExitCode;

use clap::{Args, Subcommand};

use super::CliError;

/// `pillion vault`
#[derive(Debug, Args)]
pub(super) struct Vault {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Makes another key, encrypts every stored credential with it, and puts it in the place of
    /// the one before
    Rotate(rotate::Rotate),
}

impl Vault {
    pub(super) fn apply(self) -> Result<ExitCode, CliError> {
        match self.command {
            Command::Rotate(rotate) => rotate.apply(),
        }
    }
}
