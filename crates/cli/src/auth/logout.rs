use std::process::ExitCode;

use clap::Args;
use pillion_client::Client;
use pillion_mcp_client::TokenStore;

use pillion_gateway::credentials::CredentialError;

use super::{Account, CliError, Operator, print, reconnect_server, refresh_credentials};

/// `pillion auth logout`
#[derive(Debug, Args)]
pub(super) struct Logout {
    /// The server's name
    server: String,
    /// Deletes the authorization of this user
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
}

impl Logout {
    pub(super) fn apply(self, operator: &Operator, client: &Client) -> Result<ExitCode, CliError> {
        let account = Account::of(operator, &self.server, self.user.as_deref())?;
        let clear = || {
            let cleared = operator.run(account.tokens.clear(&account.key));
            cleared.map_err(|error| CliError::Usage(error.to_string()))
        };
        clear()?;
        match &account.of_user {
            Some(it) => {
                match operator.run(it.credentials.remove(&it.server, &it.user)) {
                    Ok(()) | Err(CredentialError::NoUserCredential) => {}
                    Err(error) => return Err(error.into()),
                }
                refresh_credentials(client)?;
            }
            None => reconnect_server(client, &self.server)?,
        }
        // Deletes tokens that the sidecar renewed in the meantime.
        clear()?;
        print(&format!("{}: authorization removed", self.server))?;
        Ok(ExitCode::SUCCESS)
    }
}
