mod call;
mod keys;
mod list;
mod schemas;
mod show;

use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand};

use super::{CliError, SocketOption, complain, decode, print, print_json};

/// `pillion tools`
#[derive(Debug, Args)]
pub(super) struct Tools {
    #[command(flatten)]
    socket: SocketOption,
    /// How long to wait for the sidecar's answer
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
    /// Prints the tools' schemas in OpenAI's form, as JSON
    Schemas(schemas::Schemas),
    /// Calls a tool and prints its result
    Call(call::Call),
    /// Lists the built-in tools whose service wants a key, and where that is
    Keys(keys::Keys),
    /// Puts the key of a tool's service, which standard input has, into the vault
    SetKey(keys::Named),
    /// Takes the key of a tool's service out of the vault
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

/// Names the files of the folder of sandboxed tools that are none.
fn warn_of_faulty(faulty: &[pillion_wire::FaultyTool]) {
    for fault in faulty {
        complain(&super::report::faulty_tool(fault));
    }
}

/// Names the MCP servers whose tools are missing.
pub(super) fn warn_of(unavailable: &[pillion_wire::UnavailableServer]) {
    for server in unavailable {
        complain(&format!(
            "MCP server '{}' is unavailable: {}",
            server.label, server.error
        ));
    }
}
