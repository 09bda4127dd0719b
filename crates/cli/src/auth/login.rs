use clap::Args;
use pillion_mcp_client::TokenStore;

use super::AuthContext;
use crate::dispatch::{CommandResult, RunCommand};
use crate::error::CliError;
use crate::mcp::login::log_in;
use crate::output::print_result;
use pillion_gateway::credentials::UserCredential;

/// Authorizes the sidecar with a server, in your browser
#[derive(Debug, Args)]
#[command(after_help = examples!["pillion auth login notion --config /etc/pillion/pillion.toml"])]
pub(super) struct Login {
    /// The server's name
    server: String,
    /// Authorizes for this user, if the server uses the credentials of users
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// The port on 127.0.0.1 for the OAuth redirect [default: any free port]
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    port: Option<u16>,
}

impl RunCommand<AuthContext> for Login {
    fn run(self, context: &AuthContext) -> CommandResult {
        let operator = &context.operator;
        let mut account = context.account(&self.server, self.user.as_deref())?;
        account.server.authorization.token_store = Some(account.tokens.clone() as _);
        operator.run(log_in(account.server, self.port))?;
        let tokens = operator
            .run(account.tokens.load(&account.key))
            .map_err(|error| CliError::Usage(error.to_string()))?;
        match (&account.user, &tokens) {
            (Some(user), Some(_)) => {
                let credential = UserCredential::authorized(user.origin.clone());
                let credentials = &user.credentials;
                operator.run(credentials.put(&user.server_id, &user.name, &credential))?;
                context.refresh_credentials()?;
            }
            (Some(_), None) => {}
            (None, _) => context.reconnect_server(&self.server)?,
        }
        let outcome = match tokens {
            Some(_) => "authorized; the sidecar has the tokens",
            None => "the server requires no authorization",
        };
        print_result(&format!("{}: {outcome}", self.server))
    }
}
