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
    /// Replaces the vault's key: generates a new key and encrypts every stored credential with it
    Rotate(rotate::Rotate),
}

impl Vault {
    pub(super) fn apply(self) -> Result<ExitCode, CliError> {
        match self.command {
            Command::Rotate(rotate) => rotate.apply(),
        }
    }
}
