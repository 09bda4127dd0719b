mod change;
mod connect;
mod credentials;
mod list;
mod remove;
mod server_options;
mod show;
mod test;
mod tools;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand};
use pillion_client::Client;
use pillion_wire::{ServerEntry, ServerList, route};

use super::operator::Operator;
use super::{CliError, SocketOption, decode, print_diagnostic};
use connect::Connection;

/// `pillion servers`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  pillion servers add weather --url https://mcp.example.com/mcp --bearer-env WEATHER_TOKEN
  pillion servers add notes --config /etc/pillion/pillion.toml --command npx -- -y notes-server
  pillion servers list
  pillion servers update weather --timeout-ms 5000
  pillion servers disable weather

To add, change or enable a stdio server, `pillion servers` writes to the store directly: run it as
the sidecar's user, with the sidecar's configuration.")]
pub(super) struct Servers {
    #[command(flatten)]
    common: ServersOptions,
    #[command(subcommand)]
    command: Command,
}

/// The options of every command.
#[derive(Debug, Args)]
struct ServersOptions {
    #[command(flatten)]
    socket: SocketOption,
    /// The sidecar's configuration file; needed to change servers that are programs, which changes
    /// the store directly
    #[arg(long, global = true, env = "PILLION_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
    /// Prints the sidecar's response as JSON
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Adds a server
    Add(change::Add),
    /// Lists the servers and their status
    List,
    /// Shows one server
    Show(Named),
    /// Changes a server; settings that are not given stay unchanged
    Update(change::Update),
    /// Removes a server, its credentials and its recorded calls
    Remove(Named),
    /// Enables a server
    Enable(Named),
    /// Disables a server
    Disable(Named),
    /// Connects a server, and lists its tools
    Connect(Named),
    /// Closes a server's sessions; calls of its tools fail until it is connected again
    Disconnect(Named),
    /// Closes a server's sessions; the next list or call opens new ones
    Reconnect(Named),
    /// Tests a server, which need not be added, by listing its tools
    Test(test::Test),
    /// Lists the tools of a server
    Tools(tools::Tools),
    /// Manages the credentials of users for a server with credential = per_user or user_or_shared
    Credentials(credentials::Credentials),
}

/// The server.
#[derive(Debug, Args)]
struct Named {
    /// The server's name or ID
    #[arg(value_name = "SERVER")]
    name: String,
}

/// The shared state of the commands.
struct Context {
    client: Client,
    config: Option<PathBuf>,
    json: bool,
}

impl Servers {
    pub(super) fn apply(self) -> Result<ExitCode, CliError> {
        let context = Context {
            // Long enough for changes that wait for the discovery of servers, and for tests of slow
            // servers.
            client: self.common.socket.client(Duration::from_secs(330)),
            config: self.common.config,
            json: self.common.json,
        };
        match self.command {
            Command::Add(add) => add.apply(&context),
            Command::List => list::apply(&context),
            Command::Show(named) => show::apply(&context, &named.name),
            Command::Update(update) => update.apply(&context),
            Command::Remove(named) => remove::apply(&context, &named.name),
            Command::Enable(named) => change::enable(&context, &named.name, true),
            Command::Disable(named) => change::enable(&context, &named.name, false),
            Command::Connect(named) => Connection::Connect.apply(&context, &named.name),
            Command::Disconnect(named) => Connection::Disconnect.apply(&context, &named.name),
            Command::Reconnect(named) => Connection::Reconnect.apply(&context, &named.name),
            Command::Test(test) => test.apply(&context),
            Command::Tools(tools) => tools.apply(&context),
            Command::Credentials(credentials) => credentials.apply(&context),
        }
    }
}

fn has_id(server: &ServerEntry, id: &str) -> bool {
    server.id == id
}

fn has_name(server: &ServerEntry, name: &str) -> bool {
    server.name == name
}

impl Context {
    /// Returns the server with this name or ID.
    fn find(&self, name: &str) -> Result<ServerEntry, CliError> {
        self.find_first(name, &[has_id, has_name])
    }

    /// Returns the server with this name or ID. Prefers an added server: a server of the
    /// configuration file may have the same name.
    fn find_added(&self, name: &str) -> Result<ServerEntry, CliError> {
        let is_added =
            |server: &ServerEntry, name: &str| has_name(server, name) && server.origin == "store";
        self.find_first(name, &[is_added, has_id, has_name])
    }

    /// Returns the server that the first possible rule selects.
    fn find_first(
        &self,
        name: &str,
        rules: &[fn(&ServerEntry, &str) -> bool],
    ) -> Result<ServerEntry, CliError> {
        let ServerList { servers, .. } =
            decode(&self.client.request(route::LIST_SERVERS, []).send()?)?;
        let find = |is_it: &fn(&ServerEntry, &str) -> bool| {
            servers.iter().find(|server| is_it(server, name))
        };
        let found = rules.iter().find_map(find).cloned();
        found.ok_or_else(|| CliError::NoServer(name.to_owned()))
    }

    /// Opens the sidecar's store.
    fn operator(&self) -> Result<Operator, CliError> {
        Operator::open_for_socket(self.config.as_deref(), self.client.socket_path())
    }

    /// Tells a running sidecar to reload its servers from the store.
    fn refresh(&self, id: &str) -> Result<Option<ServerEntry>, CliError> {
        let response = match self.client.request(route::REFRESH_SERVERS, []).send() {
            Ok(response) => response,
            Err(error) if error.is_not_running() => {
                print_diagnostic(
                    "the sidecar is not running; the change takes effect when it starts",
                );
                return Ok(None);
            }
            Err(error) => return Err(error.into()),
        };
        let list = decode(&response)?;
        let found = list.servers.into_iter().find(|server| server.id == id);
        if found.is_none() {
            print_diagnostic(
                "the change is stored, but the running sidecar does not show it: it may use \
                another store; set its configuration with --config",
            );
        }
        Ok(found)
    }
}
