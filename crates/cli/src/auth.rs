mod login;
mod logout;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Args, Subcommand};
use pillion_mcp_client::{ServerConfig, TokenKey};
use pillion_store::VaultTokenStore;
use pillion_wire::route;

use super::operator::Operator;
use super::{CliError, SocketOption, print};
use pillion_gateway::credentials::{
    Account as Obtained, CredentialError, UserCredentials, file_id, identity_of, origin_of,
};
use pillion_sidecar::servers::ServerError;

/// `pillion auth`
#[derive(Debug, Args)]
#[command(after_help = "\
These commands store the tokens in the vault of the sidecar's store ([vault] in the configuration).
The sidecar renews the tokens. Run these commands as the sidecar's user.

Examples:
  pillion auth login notion --config /etc/pillion/pillion.toml
  pillion auth login notion --user alice --config /etc/pillion/pillion.toml
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
    /// Authorizes the sidecar with a server, in your browser
    Login(login::Login),
    /// Deletes the authorization with a server
    Logout(logout::Logout),
}

impl Auth {
    pub(super) fn apply(self) -> Result<ExitCode, CliError> {
        let client = self.socket.client(std::time::Duration::from_secs(30));
        let operator = Operator::open_for_socket(self.config.as_deref(), client.socket_path())?;
        match self.command {
            Command::Login(login) => login.apply(&operator, &client),
            Command::Logout(logout) => logout.apply(&operator, &client),
        }
    }
}

/// A server with OAuth authorization, and the store of its tokens.
struct Account {
    server: ServerConfig,
    tokens: Arc<VaultTokenStore>,
    key: TokenKey,
    /// The user of the authorization; `None` for the sidecar's own.
    of_user: Option<OfUser>,
}

/// Where the credential of a user is stored.
struct OfUser {
    credentials: UserCredentials,
    server: String,
    user: String,
    address: String,
}

impl Account {
    /// Returns the server with this name, from the configuration file or the store.
    fn of(operator: &Operator, name: &str, user: Option<&str>) -> Result<Self, CliError> {
        let catalog = operator.catalog()?;
        let credentials = catalog.credentials.clone();
        let vault = credentials.vault().ok_or(CredentialError::NoKey)?;
        let of_file = operator.config.mcp_servers.iter();
        let section = match of_file.into_iter().find(|section| section.label() == name) {
            Some(section) => section.clone(),
            None => {
                let found = operator.run(async {
                    match catalog.store.server_named(name).await? {
                        Some(record) => Ok(Some(catalog.load(record).await.section?)),
                        None => Ok::<_, ServerError>(None),
                    }
                })?;
                found.ok_or_else(|| CliError::NoServer(name.to_owned()))?
            }
        };
        let server = section.server;
        let account = Obtained::from_server(&server).filter(Obtained::is_consented);
        let (Some(account), Some(url)) = (account, server.url()) else {
            let message = "this server does not use OAuth with a user's consent: its \
                authentication is not { type = \"oauth\" } with the grant authorization_code";
            return Err(CliError::Usage(message.to_owned()));
        };
        let of_user = match user {
            Some(_) if !section.settings.credential.uses_user_credentials() => {
                let name = name.to_owned();
                return Err(ServerError::NotOfUsers { name }.into());
            }
            Some(user) => Some(OfUser {
                credentials,
                server: section.id.unwrap_or_else(|| file_id(name)),
                user: user.to_owned(),
                address: origin_of(url),
            }),
            None => None,
        };
        let identity = of_user.as_ref();
        let identity = identity.map(|it| identity_of(&it.server, &it.user));
        Ok(Self {
            key: account.key,
            server,
            tokens: Arc::new(VaultTokenStore::new(vault, identity.unwrap_or_default())),
            of_user,
        })
    }
}

/// Tells a running sidecar to reload the credentials of users.
fn refresh_credentials(client: &pillion_client::Client) -> Result<(), CliError> {
    match client.request(route::REFRESH_SERVERS, []).send() {
        Err(error) if !error.is_not_running() => Err(error.into()),
        _ => Ok(()),
    }
}

/// Tells a running sidecar to start a new session with the server.
fn reconnect_server(client: &pillion_client::Client, server: &str) -> Result<(), CliError> {
    let request = client.request(route::RECONNECT_SERVER, [server]);
    match request.send() {
        Err(error) if !error.is_not_running() => Err(error.into()),
        _ => Ok(()),
    }
}
