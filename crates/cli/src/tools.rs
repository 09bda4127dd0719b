mod call;
mod keys;
mod list;
mod schemas;
mod show;

use std::time::Duration;

use clap::Args;
use pillion_client::Client;
use pillion_core::escape_line;

use super::dispatch::{CommandResult, RunCommand};
use super::output::{JsonOption, print_diagnostic};
use super::sidecar::SocketOption;

/// Lists and calls the tools of a running sidecar
#[derive(Debug, Args)]
pub(super) struct ToolsCommand {
    #[command(flatten)]
    socket: SocketOption,
    /// Timeout for the sidecar's response, in milliseconds
    #[arg(long, global = true, display_order = 890, value_name = "MS", default_value_t = 65_000, value_parser = clap::value_parser!(u64).range(1..=86_400_000))]
    timeout_ms: u64,
    #[command(subcommand)]
    command: ToolsSubcommand,
}

commands! {
    #[command(after_help = examples!["pillion tools list", "pillion tools call get_time"])]
    enum ToolsSubcommand: Client {
        List(list::ListTools),
        Show(show::ShowTool),
        Schemas(schemas::ToolSchemas),
        Call(call::CallTool),
        /// Lists the built-in tools whose service needs an API key, and where each key is stored
        #[command(after_help = examples!["pillion tools keys", "pillion tools keys --json"])]
        Keys(JsonOption) => keys::list_keys,
        /// Stores the API key of a tool's service, read from standard input, in the vault
        #[command(after_help = examples!["pillion tools set-key web_search < key.txt"])]
        SetKey(keys::ToolKeyTarget) => keys::ToolKeyTarget::set_key,
        /// Removes the API keys of a tool's services from the vault
        #[command(after_help = examples!["pillion tools remove-key web_search"])]
        RemoveKey(keys::ToolKeyTarget) => keys::ToolKeyTarget::remove_key,
    }
}

impl RunCommand<()> for ToolsCommand {
    fn run(self, (): &()) -> CommandResult {
        let approval_wait = match &self.command {
            ToolsSubcommand::Call(call) => call.approval_wait(),
            _ => Duration::ZERO,
        };
        let timeout = Duration::from_millis(self.timeout_ms).saturating_add(approval_wait);
        self.command.run(&self.socket.client(timeout))
    }
}

/// Warns about invalid files in the directory of WebAssembly tools.
fn warn_about_invalid_tools(tools: &[pillion_wire::InvalidTool]) {
    for tool in tools {
        print_diagnostic(&escape_line(&super::report::invalid_tool(tool)));
    }
}

/// Warns about unavailable MCP servers, whose tools are missing.
pub(super) fn warn_about_unavailable_servers(servers: &[pillion_wire::UnavailableServer]) {
    for server in servers {
        let (label, error) = (&server.label, escape_line(&server.error));
        print_diagnostic(&format!("MCP server '{label}' is unavailable: {error}"));
    }
}
