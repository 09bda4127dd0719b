use std::process::ExitCode;

use clap::Args;
use pillion_client::Client;
use pillion_mcp_client::TokenStore;

use super::super::mcp::login::log_in;
use pillion_gateway::credentials::UserCredential;

use super::{Account, CliError, Operator, print, reconnect_server, refresh_credentials};

/// `pillion auth login`
#[derive(Debug, Args)]
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

impl Login {
    pub(super) fn apply(self, operator: &Operator, client: &Client) -> Result<ExitCode, CliError> {
        let mut account = Account::of(operator, &self.server, self.user.as_deref())?;
        let tokens = account.tokens.clone();
        account.server.authorization.token_store = Some(tokens as _);
        let logged_in = operator.run(log_in(account.server, self.port));
        logged_in.map_err(CliError::Mcp)?;
        let tokens = operator.run(account.tokens.load(&account.key));
        let tokens = tokens.map_err(|error| CliError::Usage(error.to_string()))?;
        match (&account.of_user, &tokens) {
            (Some(it), Some(_)) => {
                let credential = UserCredential::authorized(it.address.clone());
                operator.run(it.credentials.put(&it.server, &it.user, &credential))?;
                refresh_credentials(client)?;
            }
            (Some(_), None) => {}
            (None, _) => reconnect_server(client, &self.server)?,
        }
        print(&match tokens {
            Some(_) => format!("{}: authorized; the sidecar has the tokens", self.server),
            None => format!("{}: the server requires no authorization", self.server),
        })?;
        Ok(ExitCode::SUCCESS)
    }
}
