use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use pillion_client::{Client, ClientError};
use pillion_gateway::credentials::{
    Account as OAuthAccount, CredentialError, UserCredential, UserCredentials, format_identity,
    server_id_from_label, url_origin,
};
use pillion_management::servers::ServerError;
use pillion_mcp_client::{ServerConfig, TokenKey, TokenStore};
use pillion_store::VaultTokenStore;
use pillion_wire::route;

use crate::dispatch::{CommandResult, RunCommand};
use crate::error::CliError;
use crate::mcp::login::log_in;
use crate::operator::OperatorStore;
use crate::output::print_result;
use crate::sidecar::SocketOption;

/// Authorizes the sidecar with MCP servers in your browser (OAuth)
#[derive(Debug, Args)]
#[command(after_help = concat!(
    "\
These commands store the tokens in the vault of the sidecar's store ([vault] in the configuration).
The sidecar renews the tokens. Run these commands as the sidecar's user.

",
    examples![
        "pillion auth login notion --config /etc/pillion/pillion.toml",
        "pillion auth login notion --user alice --config /etc/pillion/pillion.toml",
        "pillion auth logout notion --config /etc/pillion/pillion.toml",
    ]
))]
pub(super) struct AuthCommand {
    #[command(flatten)]
    socket: SocketOption,
    /// The sidecar's configuration file
    #[arg(long, global = true, env = "PILLION_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(subcommand)]
    command: AuthSubcommand,
}

commands! {
    enum AuthSubcommand: AuthContext {
        Login(Login),
        Logout(Logout),
    }
}

/// The store that contains the tokens, and a client of the sidecar that has this store open.
struct AuthContext {
    operator_store: OperatorStore,
    client: Client,
}

impl RunCommand<()> for AuthCommand {
    fn run(self, (): &()) -> CommandResult {
        let client = self.socket.create_client(Duration::from_secs(30));
        let operator_store =
            OperatorStore::open_for_socket(self.config.as_deref(), client.socket_path())?;
        self.command.run(&AuthContext {
            operator_store,
            client,
        })
    }
}

/// A server with OAuth authorization, and the store of its tokens.
struct ServerAccount {
    server: ServerConfig,
    token_store: Arc<VaultTokenStore>,
    token_key: TokenKey,
    /// The user who authorizes; `None` if the sidecar itself is authorized.
    user: Option<AccountUser>,
}

/// The user of an authorization. The user's credential is stored under the server's ID.
struct AccountUser {
    credentials: UserCredentials,
    server_id: String,
    name: String,
    /// The scheme, host and port of the server's URL.
    origin: String,
}

impl AuthContext {
    /// Returns the server with this name from the configuration file or the store, with its tokens.
    fn find_account(&self, name: &str, user: Option<&str>) -> Result<ServerAccount, CliError> {
        let operator_store = &self.operator_store;
        let catalog = operator_store.open_catalog()?;
        let credentials = catalog.credentials.clone();
        let vault = credentials.vault().ok_or(CredentialError::NoKey)?;
        let mut configured_servers = operator_store.config.mcp_servers.iter();
        let section = match configured_servers.find(|section| section.label() == name) {
            Some(section) => section.clone(),
            None => operator_store
                .run(async {
                    match catalog.store.find_server_by_name(name).await? {
                        Some(record) => Ok(Some(catalog.load(record).await.section?)),
                        None => Ok::<_, ServerError>(None),
                    }
                })?
                .ok_or_else(|| CliError::UnknownServer(name.to_owned()))?,
        };
        let server = section.server;
        let account = OAuthAccount::from_server(&server).filter(OAuthAccount::needs_consent);
        let (Some(account), Some(url)) = (account, server.url()) else {
            return Err(CliError::Usage(format!(
                "server '{name}' does not use OAuth with a user's consent: set its authentication \
                to {{ type = \"oauth\" }} with the grant authorization_code"
            )));
        };
        let account_user = match user {
            Some(_) if !section.settings.credential.uses_user_credentials() => {
                let name = name.to_owned();
                return Err(ServerError::NotOfUsers { name }.into());
            }
            Some(user) => Some(AccountUser {
                credentials,
                server_id: section.id.unwrap_or_else(|| server_id_from_label(name)),
                name: user.to_owned(),
                origin: url_origin(url),
            }),
            None => None,
        };
        let to_identity = |user: &AccountUser| format_identity(&user.server_id, &user.name);
        let identity = account_user.as_ref().map(to_identity).unwrap_or_default();
        Ok(ServerAccount {
            token_key: account.key,
            server,
            token_store: Arc::new(VaultTokenStore::new(vault, identity)),
            user: account_user,
        })
    }

    /// Tells a running sidecar to reload the credentials of users.
    fn refresh_credentials(&self) -> Result<(), CliError> {
        ignore_stopped_sidecar(self.client.request(route::REFRESH_SERVERS, []).send())
    }

    /// Tells a running sidecar to start a new session with the server.
    fn reconnect_server(&self, server: &str) -> Result<(), CliError> {
        let request = self.client.request(route::RECONNECT_SERVER, [server]);
        ignore_stopped_sidecar(request.send())
    }
}

fn ignore_stopped_sidecar<T>(response: Result<T, ClientError>) -> Result<(), CliError> {
    match response {
        Err(error) if !error.is_not_running() => Err(error.into()),
        _ => Ok(()),
    }
}

/// Authorizes the sidecar with a server, in your browser
#[derive(Debug, Args)]
#[command(after_help = examples!["pillion auth login notion --config /etc/pillion/pillion.toml"])]
pub(super) struct Login {
    /// The server's name
    server: String,
    /// Stores the tokens for this user, if the server uses the credentials of users
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// The port on 127.0.0.1 for the OAuth redirect [default: any free port]
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    port: Option<u16>,
}

impl RunCommand<AuthContext> for Login {
    fn run(self, context: &AuthContext) -> CommandResult {
        let operator_store = &context.operator_store;
        let mut account = context.find_account(&self.server, self.user.as_deref())?;
        account.server.authorization.token_store = Some(account.token_store.clone() as _);
        operator_store.run(log_in(account.server, self.port))?;
        let load_outcome = operator_store.run(account.token_store.load(&account.token_key));
        let tokens = load_outcome.map_err(|error| CliError::Usage(error.to_string()))?;
        match (&account.user, &tokens) {
            (Some(user), Some(_)) => {
                let credential = UserCredential::for_oauth(user.origin.clone());
                let credentials = &user.credentials;
                operator_store.run(credentials.put(&user.server_id, &user.name, &credential))?;
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
        let operator_store = &context.operator_store;
        let account = context.find_account(&self.server, self.user.as_deref())?;
        let delete_tokens = || {
            let outcome = operator_store.run(account.token_store.clear(&account.token_key));
            outcome.map_err(|error| CliError::Usage(error.to_string()))
        };
        delete_tokens()?;
        match &account.user {
            Some(user) => {
                match operator_store.run(user.credentials.remove(&user.server_id, &user.name)) {
                    Ok(()) | Err(CredentialError::NoUserCredential) => {}
                    Err(error) => return Err(error.into()),
                }
                context.refresh_credentials()?;
            }
            None => context.reconnect_server(&self.server)?,
        }
        // The tokens are deleted a second time, because the sidecar may have stored renewed tokens
        // after the first deletion.
        delete_tokens()?;
        print_result(&format!("{}: authorization removed", self.server))
    }
}
