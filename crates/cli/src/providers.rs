use std::io::Read;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand};
use pillion_wire::{ProviderEntry, ProviderKeyInput, route};
use zeroize::Zeroizing;

use super::table::table;
use super::{CliError, SocketOption, decode, print, print_json};

/// Maximum size of a key read from standard input, in bytes.
const MAX_KEY_BYTES: u64 = 8192;

/// `pillion providers`
#[derive(Debug, Args)]
pub(super) struct Providers {
    #[command(flatten)]
    socket: SocketOption,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Lists the language model providers
    List(List),
    /// Stores a provider's API key, read from standard input, in the vault
    SetKey(Named),
    /// Removes a provider's API key from the vault
    RemoveKey(Named),
}

/// `pillion providers list`
#[derive(Debug, Args)]
struct List {
    /// Prints the sidecar's response as JSON
    #[arg(long)]
    json: bool,
}

/// The provider.
#[derive(Debug, Args)]
struct Named {
    /// The provider's name
    name: String,
}

impl Providers {
    pub(super) fn apply(self) -> Result<ExitCode, CliError> {
        let client = self.socket.client(Duration::from_secs(30));
        match self.command {
            Command::List(list) => {
                let response = client.request(route::LIST_PROVIDERS, []).send()?;
                if list.json {
                    print_json(&response.text())?;
                } else {
                    let list = decode(&response)?;
                    let rows: Vec<_> = list.providers.iter().map(row).collect();
                    print(&table(&["PROVIDER", "API", "HOST", "KEY"], &rows))?;
                }
            }
            Command::SetKey(Named { name }) => {
                let request = client.request(route::SET_PROVIDER_KEY, [&name]);
                request.send_bytes(&key_from_input()?)?;
                print(&format!("stored the key of {name} in the vault"))?;
            }
            Command::RemoveKey(Named { name }) => {
                let request = client.request(route::REMOVE_PROVIDER_KEY, [&name]);
                request.send()?;
                print(&format!("removed the key of {name} from the vault"))?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Returns the request body with the key from standard input. The key is not an argument, because
/// all processes of the host can read command lines.
pub(super) fn key_from_input() -> Result<Zeroizing<Vec<u8>>, CliError> {
    let mut key = Zeroizing::new(String::new());
    let mut input = std::io::stdin().lock().take(MAX_KEY_BYTES);
    input.read_to_string(&mut key).map_err(CliError::Input)?;
    let input = ProviderKeyInput {
        key: key.trim().to_owned(),
    };
    let body = serde_json::to_vec(&input).map(Zeroizing::new);
    body.map_err(CliError::Answer)
}

fn row(provider: &ProviderEntry) -> [String; 4] {
    let ProviderEntry {
        name,
        api,
        host,
        key,
        key_env,
    } = provider.clone();
    let key = match (key_env, key.as_str()) {
        (Some(variable), "variable") => variable,
        (Some(variable), _) => format!("{variable}, not set"),
        (None, _) => key,
    };
    [name, api, host, key]
}
