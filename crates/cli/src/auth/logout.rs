use clap::Args;
use pillion_mcp_client::TokenStore;

use super::AuthContext;
use crate::dispatch::{CommandResult, RunCommand};
use crate::error::CliError;
use crate::output::print_result;
use pillion_gateway::credentials::CredentialError;

/// Deletes the authorization with a server
#[derive(Debug, Args)]
#[command(after_help = examples!["pillion auth logout notion --config /etc/pillion/pillion.toml"])]
pub(super) struct Logout {
    /// The server's name
    server: String,
    /// Deletes the authorization of this user
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
}

impl RunCommand<AuthContext> for Logout {
    fn run(self, context: &AuthContext) -> CommandResult {
        let operator = &context.operator;
        let account = context.account(&self.server, self.user.as_deref())?;
        let delete_tokens = || {
            operator
                .run(account.tokens.clear(&account.key))
                .map_err(|error| CliError::Usage(error.to_string()))
        };
        delete_tokens()?;
        match &account.user {
            Some(user) => {
                match operator.run(user.credentials.remove(&user.server_id, &user.name)) {
                    Ok(()) | Err(CredentialError::NoUserCredential) => {}
                    Err(error) => return Err(error.into()),
                }
                context.refresh_credentials()?;
            }
            None => context.reconnect_server(&self.server)?,
        }
        // Deletes tokens that the sidecar renewed in the meantime.
        delete_tokens()?;
        print_result(&format!("{}: authorization removed", self.server))
    }
}
