mod create;
mod list;
mod revoke;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};

use super::operator::Operator;
use super::{CliError, print};

/// `pillion tokens`
#[derive(Debug, Args)]
#[command(after_help = "\
These commands use the sidecar's store directly, even if the sidecar is not running: run them as
the sidecar's user. The sidecar accepts these tokens if its configuration has
tcp.tokens_store = true.

Examples:
  pillion tokens create ci --scope execute --expires-days 90 --config /etc/pillion/pillion.toml
  export PILLION_CONFIG=/etc/pillion/pillion.toml
  pillion tokens create bot --scope execute --tools 'get_time,far_*'
  pillion tokens list
  pillion tokens revoke ci")]
pub(super) struct Tokens {
    /// The sidecar's configuration file
    #[arg(long, global = true, env = "PILLION_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
    /// Prints the result as JSON
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Creates a token and prints it; it cannot be shown again
    Create(create::Create),
    /// Lists the tokens, without their values
    List,
    /// Revokes a token at once
    Revoke(revoke::Revoke),
}

impl Tokens {
    pub(super) fn apply(self) -> Result<ExitCode, CliError> {
        let operator = Operator::open_for_any_sidecar(self.config.as_deref())?;
        match self.command {
            Command::Create(create) => {
                let is_named = self.config.is_some();
                create.apply(&operator, is_named, self.json)
            }
            Command::List => list::apply(&operator, self.json),
            Command::Revoke(revoke) => revoke.apply(&operator, self.json),
        }
    }
}
