use std::process::ExitCode;

use clap::Args;
use pillion_client::Client;
use pillion_core::mcp::TokenStore;

use super::{Account, CliError, Operator, print, tell};

/// `pillion auth logout`
#[derive(Debug, Args)]
pub(super) struct Logout {
    /// The server's name
    server: String,
}

impl Logout {
    pub(super) fn apply(self, operator: &Operator, client: &Client) -> Result<ExitCode, CliError> {
        let account = Account::of(operator, &self.server)?;
        let cleared = operator.run(account.tokens.clear(&account.key));
        cleared.map_err(|error| CliError::Usage(error.to_string()))?;
        tell(client, &self.server)?;
        print(&format!("{}: forgotten", self.server))?;
        Ok(ExitCode::SUCCESS)
    }
}
