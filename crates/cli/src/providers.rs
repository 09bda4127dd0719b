use clap::Args;
use pillion_client::Client;
use pillion_wire::{ProviderEntry, ProviderKeyInput, route};
use secrecy::ExposeSecret;
use zeroize::Zeroizing;

use super::dispatch::CommandResult;
use super::error::CliError;
use super::input::{InputError, read_secret};
use super::output::{JsonOption, print_result};
use super::table::format_table;

/// Maximum size of a key read from standard input, in bytes.
const MAX_KEY_BYTES: u64 = 8192;

commands! {
    /// Lists the language model providers, and stores their API keys
    #[command(after_help = examples![
        "pillion providers list",
        "pillion providers set-key openai < key.txt",
    ])]
    pub(super) enum ProvidersCommand: Client {
        /// Lists the language model providers
        #[command(after_help = examples![
            "pillion providers list",
            "pillion providers list --json",
        ])]
        List(JsonOption) => list_providers,
        /// Stores a provider's API key, read from standard input, in the vault
        #[command(after_help = examples!["pillion providers set-key openai < key.txt"])]
        SetKey(ProviderKeyTarget) => ProviderKeyTarget::set_key,
        /// Removes a provider's API key from the vault
        #[command(after_help = examples!["pillion providers remove-key openai"])]
        RemoveKey(ProviderKeyTarget) => ProviderKeyTarget::remove_key,
    }
}

/// The provider of `pillion providers set-key` and `remove-key`.
#[derive(Debug, Args)]
pub(super) struct ProviderKeyTarget {
    /// The provider's name
    name: String,
}

fn list_providers(output: &JsonOption, client: &Client) -> CommandResult {
    let response = client.request(route::LIST_PROVIDERS, []).send()?;
    output.print(&response, |list| {
        let headings = ["PROVIDER", "API", "HOST", "KEY"];
        let rows = list.providers.into_iter().map(format_provider_row);
        format_table(headings, rows)
    })
}

impl ProviderKeyTarget {
    fn set_key(&self, client: &Client) -> CommandResult {
        let request = client.request(route::SET_PROVIDER_KEY, [&self.name]);
        request.send_bytes(&read_key_body()?)?;
        print_result(&format!("stored the key of {} in the vault", self.name))
    }

    fn remove_key(&self, client: &Client) -> CommandResult {
        let request = client.request(route::REMOVE_PROVIDER_KEY, [&self.name]);
        request.send()?;
        print_result(&format!("removed the key of {} from the vault", self.name))
    }
}

/// Returns the request body with the key from standard input. The key is not taken from the command
/// line, because all processes of the host can read command lines.
pub(super) fn read_key_body() -> Result<Zeroizing<Vec<u8>>, CliError> {
    let secret = read_secret(std::io::stdin().lock(), MAX_KEY_BYTES).map_err(InputError::from)?;
    let key = secret.expose_secret().to_owned();
    Ok(serde_json::to_vec(&ProviderKeyInput { key }).map(Zeroizing::new)?)
}

fn format_provider_row(provider: ProviderEntry) -> [String; 4] {
    let ProviderEntry {
        name,
        api,
        host,
        key,
        key_env,
    } = provider;
    let key_origin = match (key_env, key.as_str()) {
        (Some(variable), "variable") => variable,
        (Some(variable), _) => format!("{variable}, not set"),
        (None, _) => key,
    };
    [name, api, host, key_origin]
}
