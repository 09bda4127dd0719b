mod call;
mod keys;
mod list;
mod schemas;
mod show;

use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand};
use pillion_core::escape_line;

use super::{CliError, SocketOption, decode, print, print_diagnostic, print_json};

/// `pillion tools`
#[derive(Debug, Args)]
pub(super) struct Tools {
    #[command(flatten)]
    socket: SocketOption,
    /// Timeout for the sidecar's response, in milliseconds
    #[arg(long, global = true, display_order = 890, value_name = "MS", default_value_t = 65_000, value_parser = clap::value_parser!(u64).range(1..=86_400_000))]
    timeout_ms: u64,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Lists the tools
    List(list::List),
    /// Shows one tool with its parameters
    Show(show::Show),
    /// Prints the tools' schemas in OpenAI's format, as JSON
    Schemas(schemas::Schemas),
    /// Calls a tool and prints its result
    Call(call::Call),
    /// Lists the built-in tools whose service needs an API key, and where each key is stored
    Keys(keys::Keys),
    /// Stores the API key of a tool's service, read from standard input, in the vault
    SetKey(keys::Named),
    /// Removes the API keys of a tool's services from the vault
    RemoveKey(keys::Named),
}

impl Tools {
    pub(super) fn apply(self) -> Result<ExitCode, CliError> {
        let waiting = match &self.command {
            Command::Call(call) => call.waiting(),
            _ => Duration::ZERO,
        };
        let timeout = Duration::from_millis(self.timeout_ms);
        let client = self.socket.client(timeout.saturating_add(waiting));
        match self.command {
            Command::List(list) => list.apply(&client),
            Command::Show(show) => show.apply(&client),
            Command::Schemas(schemas) => schemas.apply(&client),
            Command::Call(call) => call.apply(&client),
            Command::Keys(keys) => keys.apply(&client),
            Command::SetKey(named) => named.set(&client),
            Command::RemoveKey(named) => named.remove(&client),
        }
    }
}

/// Warns about invalid files in the directory of WebAssembly tools.
fn warn_of_faulty(faulty: &[pillion_wire::InvalidTool]) {
    for fault in faulty {
        print_diagnostic(&escape_line(&super::report::faulty_tool(fault)));
    }
}

/// Warns about unavailable MCP servers, whose tools are missing.
pub(super) fn warn_of_unavailable(unavailable: &[pillion_wire::UnavailableServer]) {
    for server in unavailable {
        let (label, error) = (&server.label, escape_line(&server.error));
        print_diagnostic(&format!("MCP server '{label}' is unavailable: {error}"));
    }
}
