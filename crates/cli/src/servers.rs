mod change;
mod connect;
mod credentials;
mod list;
mod server_options;

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use pillion_client::Client;
use pillion_wire::{ServerEntry, ServerList, route};

use super::dispatch::{CommandResult, RunCommand};
use super::error::CliError;
use super::operator::OperatorStore;
use super::output::{JsonOption, print_diagnostic};
use super::sidecar::{SocketOption, decode};

/// Lists, adds, changes and removes the MCP servers of a running sidecar
#[derive(Debug, Args)]
#[command(after_help = concat!(
    examples![
        "pillion servers add weather --url https://mcp.example.com/mcp --bearer-env WEATHER_TOKEN",
        "pillion servers add notes --config /etc/pillion/pillion.toml --command npx -- -y notes-server",
        "pillion servers list",
        "pillion servers update weather --timeout-ms 5000",
        "pillion servers disable weather",
    ],
    "

To add, change or enable a stdio server, `pillion servers` writes to the store directly: run it as
the sidecar's user, with the sidecar's configuration."
))]
pub(super) struct ServersCommand {
    #[command(flatten)]
    socket: SocketOption,
    /// The sidecar's configuration file; required to add, change or enable stdio servers, for which
    /// `pillion servers` writes to the store directly
    #[arg(long, global = true, env = "PILLION_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
    /// Prints the sidecar's response as JSON
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: ServersSubcommand,
}

commands! {
    enum ServersSubcommand: ServersContext {
        Add(change::AddServer),
        List(list::ListServers),
        /// Shows one server
        #[command(after_help = examples!["pillion servers show weather"])]
        Show(ServerArgument) => list::show,
        Update(change::UpdateServer),
        /// Removes a server, its credentials and its recorded calls
        #[command(after_help = examples!["pillion servers remove weather"])]
        Remove(ServerArgument) => change::remove,
        /// Enables a server
        #[command(after_help = examples!["pillion servers enable weather"])]
        Enable(ServerArgument) => change::enable,
        /// Disables a server
        #[command(after_help = examples!["pillion servers disable weather"])]
        Disable(ServerArgument) => change::disable,
        /// Connects a server, and lists its tools
        #[command(after_help = examples!["pillion servers connect weather"])]
        Connect(ServerArgument) => connect::connect,
        /// Closes a server's sessions; calls of the server's tools fail until the server is
        /// connected again
        #[command(after_help = examples!["pillion servers disconnect weather"])]
        Disconnect(ServerArgument) => connect::disconnect,
        /// Closes a server's sessions; the next list or call opens new ones
        #[command(after_help = examples!["pillion servers reconnect weather"])]
        Reconnect(ServerArgument) => connect::reconnect,
        Test(connect::TestServer),
        Tools(list::ListServerTools),
        Credentials(credentials::CredentialsCommand),
    }
}

/// The server that a command shows or changes.
#[derive(Debug, Args)]
struct ServerArgument {
    /// The server's name or ID
    #[arg(value_name = "SERVER")]
    name: String,
}

/// A client of the sidecar, and the options of all commands.
struct ServersContext {
    client: Client,
    config: Option<PathBuf>,
    output: JsonOption,
}

impl RunCommand<()> for ServersCommand {
    fn run(self, (): &()) -> CommandResult {
        // The timeout is long, because a change may wait for server discovery, and `servers test`
        // may wait for a slow server.
        let timeout = Duration::from_secs(330);
        self.command.run(&ServersContext {
            client: self.socket.create_client(timeout),
            config: self.config,
            output: JsonOption { json: self.json },
        })
    }
}

fn has_id(server: &ServerEntry, id: &str) -> bool {
    server.id == id
}

fn has_name(server: &ServerEntry, name: &str) -> bool {
    server.name == name
}

impl ServersContext {
    /// Returns the server with this name or ID.
    fn find(&self, name: &str) -> Result<ServerEntry, CliError> {
        self.find_first(name, &[has_id, has_name])
    }

    /// Returns the server with this name or ID. If both an added server and a server of the
    /// configuration file have this name, returns the added server.
    fn find_added(&self, name: &str) -> Result<ServerEntry, CliError> {
        let is_added =
            |server: &ServerEntry, name: &str| has_name(server, name) && server.origin == "store";
        self.find_first(name, &[is_added, has_id, has_name])
    }

    /// Returns the first server that matches the first rule. If no server matches, tries the next
    /// rule. A rule is a predicate on a server and `name`.
    fn find_first(
        &self,
        name: &str,
        rules: &[fn(&ServerEntry, &str) -> bool],
    ) -> Result<ServerEntry, CliError> {
        let response = self.client.request(route::LIST_SERVERS, []).send()?;
        let ServerList { servers, .. } = decode(&response)?;
        rules
            .iter()
            .find_map(|is_match| servers.iter().find(|server| is_match(server, name)))
            .cloned()
            .ok_or_else(|| CliError::UnknownServer(name.to_owned()))
    }

    /// Opens the sidecar's store.
    fn open_store(&self) -> Result<OperatorStore, CliError> {
        OperatorStore::open_for_socket(self.config.as_deref(), self.client.socket_path())
    }

    /// Tells a running sidecar to reload its servers from the store.
    fn refresh(&self, id: &str) -> Result<Option<ServerEntry>, CliError> {
        let response = match self.client.request(route::REFRESH_SERVERS, []).send() {
            Ok(response) => response,
            Err(error) if error.is_not_running() => {
                let note =
                    "the sidecar is not running; the change takes effect when the sidecar starts";
                print_diagnostic(note);
                return Ok(None);
            }
            Err(error) => return Err(error.into()),
        };
        let list = decode(&response)?;
        let changed_server = list.servers.into_iter().find(|server| server.id == id);
        if changed_server.is_none() {
            print_diagnostic(
                "the change is stored, but the running sidecar does not show it: it may use \
                another store; set its configuration with --config",
            );
        }
        Ok(changed_server)
    }
}
