mod create;
mod list;
mod revoke;

use std::path::PathBuf;

use clap::Args;

use super::dispatch::{CommandResult, RunCommand};
use super::operator::OperatorStore;

/// Creates, lists and revokes access tokens for requests over TCP
#[derive(Debug, Args)]
#[command(after_help = concat!(
    "\
These commands use the sidecar's store directly, even if the sidecar is not running: run them as
the sidecar's user. The sidecar accepts these tokens if its configuration has
tcp.tokens_store = true.

",
    examples![
        "pillion tokens create ci --scope execute --expires-days 90 --config /etc/pillion/pillion.toml",
        "export PILLION_CONFIG=/etc/pillion/pillion.toml",
        "pillion tokens create bot --scope execute --tools 'get_time,far_*'",
        "pillion tokens list",
        "pillion tokens revoke ci",
    ]
))]
pub(super) struct TokensCommand {
    /// The sidecar's configuration file
    #[arg(long, global = true, env = "PILLION_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
    /// Prints the result as JSON
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: TokensSubcommand,
}

commands! {
    enum TokensSubcommand: TokensContext {
        Create(create::CreateToken),
        List(list::ListTokens),
        Revoke(revoke::RevokeToken),
    }
}

/// The store of the tokens, and the options of all commands.
struct TokensContext {
    operator: OperatorStore,
    has_config_file: bool,
    json: bool,
}

impl RunCommand<()> for TokensCommand {
    fn run(self, (): &()) -> CommandResult {
        self.command.run(&TokensContext {
            operator: OperatorStore::open_for_any_sidecar(self.config.as_deref())?,
            has_config_file: self.config.is_some(),
            json: self.json,
        })
    }
}
