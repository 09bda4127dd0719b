mod login;
mod logout;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Args, Subcommand};
use pillion_core::mcp::{Authentication, OAuthConfig, OAuthGrant, ServerConfig, TokenKey};
use pillion_store::VaultTokenStore;

use super::operator::Operator;
use super::{CliError, SocketOption, print};
use crate::servers::ServerError;

/// `pillion auth`
#[derive(Debug, Args)]
#[command(after_help = "\
The tokens are kept in the vault of the sidecar's store ([vault] of its configuration), which
renews them: run these as the sidecar's user.

Examples:
  pillion auth login notion --config /etc/pillion/pillion.toml
  pillion auth logout notion --config /etc/pillion/pillion.toml")]
pub(super) struct Auth {
    #[command(flatten)]
    socket: SocketOption,
    /// The sidecar's configuration file
    #[arg(long, global = true, env = "PILLION_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Asks you in a browser for an authorization with a server, which the sidecar then has
    Login(login::Login),
    /// Forgets the authorization with a server
    Logout(logout::Logout),
}

impl Auth {
    pub(super) fn apply(self) -> Result<ExitCode, CliError> {
        let operator = Operator::open(self.config.as_deref())?;
        let client = self.socket.client(std::time::Duration::from_secs(30));
        match self.command {
            Command::Login(login) => login.apply(&operator, &client),
            Command::Logout(logout) => logout.apply(&operator, &client),
        }
    }
}

/// A server that asks people for an authorization, and where its tokens are kept.
struct Account {
    server: ServerConfig,
    tokens: Arc<VaultTokenStore>,
    key: TokenKey,
}

impl Account {
    /// The server of that name, of the configuration file or the store.
    fn of(operator: &Operator, name: &str) -> Result<Self, CliError> {
        let catalog = operator.catalog()?;
        let vault = catalog.vault.clone().ok_or(ServerError::NoKey)?;
        let of_file = operator.config.mcp_servers.iter();
        let of_file = of_file.map(|section| &section.server);
        let server = match of_file.into_iter().find(|server| server.label == name) {
            Some(server) => server.clone(),
            None => operator.run(async {
                let record = catalog.store.server_named(name).await?;
                let record = record.ok_or(ServerError::NotFound)?;
                Ok::<_, ServerError>(catalog.load(record).await.section?.server)
            })?,
        };
        let oauth = asked_of_people(&server.authentication);
        let (Some(oauth), Some(url)) = (oauth, server.url()) else {
            let message = "nobody is asked for an authorization with this server: its \
                           authentication is not { type = \"oauth\" } with the grant \
                           authorization_code";
            return Err(CliError::Usage(message.to_owned()));
        };
        let key = TokenKey::new(url, oauth);
        Ok(Self {
            key,
            server,
            tokens: Arc::new(VaultTokenStore::new(vault, "")),
        })
    }
}

fn asked_of_people(authentication: &Authentication) -> Option<&OAuthConfig> {
    match authentication {
        Authentication::OAuth(oauth) if oauth.grant == OAuthGrant::AuthorizationCode => Some(oauth),
        _ => None,
    }
}

/// A sidecar that runs begins anew with the server.
fn tell(client: &pillion_client::Client, server: &str) -> Result<(), CliError> {
    match client.raw().reconnect_server(server) {
        Err(error) if !error.is_not_running() => Err(error.into()),
        _ => Ok(()),
    }
}
