mod call;

use std::io::{IsTerminal, stdout};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use pillion_client::Client;
use pillion_core::escape_line;
use pillion_gateway::pins::visible_line;
use pillion_wire::{Parameter, ToolKeyEntry, ToolList, ToolSummary, route};

use crate::dispatch::{CommandResult, RunCommand};
use crate::output::{JsonOption, print, print_body, print_diagnostic, print_pretty, print_result};
use crate::providers::read_key_body;
use crate::sidecar::{SocketOption, build_caller, decode};
use crate::table::{first_line, format_table, truncate};

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
        List(ListTools),
        Show(ShowTool),
        Schemas(ToolSchemas),
        Call(call::CallTool),
        /// Lists the built-in tools whose service needs an API key, and where each key is stored
        #[command(after_help = examples!["pillion tools keys", "pillion tools keys --json"])]
        Keys(JsonOption) => list_keys,
        /// Stores the API key of a tool's service, read from standard input, in the vault
        #[command(after_help = examples!["pillion tools set-key web_search < key.txt"])]
        SetKey(ToolKeyTarget) => ToolKeyTarget::set_key,
        /// Removes the API keys of a tool's services from the vault
        #[command(after_help = examples!["pillion tools remove-key web_search"])]
        RemoveKey(ToolKeyTarget) => ToolKeyTarget::remove_key,
    }
}

impl RunCommand<()> for ToolsCommand {
    fn run(self, (): &()) -> CommandResult {
        let approval_wait = match &self.command {
            ToolsSubcommand::Call(call) => call.approval_wait(),
            _ => Duration::ZERO,
        };
        let timeout = Duration::from_millis(self.timeout_ms).saturating_add(approval_wait);
        self.command.run(&self.socket.create_client(timeout))
    }
}

/// Warns about invalid files in the directory of WebAssembly tools.
fn warn_about_invalid_tools(tools: &[pillion_wire::InvalidTool]) {
    for tool in tools {
        print_diagnostic(&escape_line(&super::report::format_invalid_tool(tool)));
    }
}

/// Warns about unavailable MCP servers, whose tools are missing.
pub(super) fn warn_about_unavailable_servers(servers: &[pillion_wire::UnavailableServer]) {
    for server in servers {
        let (label, error) = (&server.label, escape_line(&server.error));
        print_diagnostic(&format!("MCP server '{label}' is unavailable: {error}"));
    }
}

/// Lists the tools
#[derive(Debug, Args)]
#[command(after_help = examples![
    "pillion tools list",
    "pillion tools list --category math --json",
])]
pub(super) struct ListTools {
    /// Only the tools of this category
    #[arg(long)]
    category: Option<String>,
    #[command(flatten)]
    output: JsonOption,
}

impl RunCommand<Client> for ListTools {
    fn run(self, client: &Client) -> CommandResult {
        let category_query = self.category.as_ref().map(|name| ("category", name));
        let request = client.request(route::LIST_TOOLS, []);
        let response = request.query(category_query).send()?;
        let list = decode(&response)?;
        if self.output.json {
            print_body(&response)?;
        } else if !list.tools.is_empty() {
            print(&format_tool_lines(&list, stdout().is_terminal()))?;
        }
        if list.tools.is_empty() {
            print_diagnostic(&match &self.category {
                Some(category) => format!("there are no tools in the category '{category}'"),
                None => "there are no tools".to_owned(),
            });
        }
        warn_about_unavailable_servers(&list.unavailable_servers);
        warn_about_invalid_tools(&list.invalid_tools);
        Ok(ExitCode::SUCCESS)
    }
}

/// Maximum length of a description on a terminal, in characters.
const MAX_DESCRIPTION_CHARS: usize = 100;

/// Returns one line per tool: the name and the first line of the description, which is truncated on
/// a terminal.
fn format_tool_lines(list: &ToolList, is_on_terminal: bool) -> String {
    let name_lengths = list.tools.iter().map(|tool| tool.name.len());
    let name_width = name_lengths.max().unwrap_or_default();
    let format_line = |tool: &ToolSummary| {
        let mut description = first_line(&tool.description);
        if is_on_terminal {
            description = shorten(&description);
        }
        visible_line(&format!("{:name_width$}  {description}", tool.name))
    };
    let lines: Vec<_> = list.tools.iter().map(format_line).collect();
    lines.join("\n")
}

fn shorten(description: &str) -> String {
    if description.chars().count() <= MAX_DESCRIPTION_CHARS {
        return description.to_owned();
    }
    truncate(description, MAX_DESCRIPTION_CHARS - 1, "…")
}

/// Shows one tool with its parameters
#[derive(Debug, Args)]
#[command(after_help = examples![
    "pillion tools show calculator",
    "pillion tools show calculator --json",
])]
pub(super) struct ShowTool {
    /// The tool's name, or an alias of it
    #[arg(value_name = "NAME")]
    name: String,
    /// Includes the tools that are listed for this user
    #[arg(long)]
    user: Option<String>,
    #[command(flatten)]
    output: JsonOption,
}

impl RunCommand<Client> for ShowTool {
    fn run(self, client: &Client) -> CommandResult {
        let caller = build_caller(self.user.as_deref());
        let request = client.request(route::SHOW_TOOL, [&self.name]);
        let response = request.caller(&caller).send()?;
        self.output
            .print(&response, |response| format_tool(&response.tool))
    }
}

/// Returns the tool's origin and description, and one line per parameter.
fn format_tool(tool: &ToolSummary) -> String {
    let server = tool.server_label.as_ref().map(|label| {
        let url = tool.server_url.as_deref().unwrap_or_default();
        format!("{label} ({url})")
    });
    let facts = [
        ("name", Some(tool.name.clone())),
        ("category", Some(tool.category.clone())),
        ("server", server),
        ("server tool", tool.server_tool.clone()),
        ("description", Some(tool.description.clone())),
    ];
    let parameters = tool.parameters.iter();
    let warnings = tool.warnings.iter();
    let lines: Vec<_> = facts
        .into_iter()
        .filter_map(|(name, value)| Some(format_fact(name, &value?)))
        .chain(parameters.map(|parameter| format_fact("parameter", &format_signature(parameter))))
        .chain(warnings.map(|warning| format_fact("hidden", warning)))
        .collect();
    lines.join("\n")
}

fn format_fact(name: &str, value: &str) -> String {
    format!("{name:<11} {}", visible_line(value))
}

/// Returns one line about a parameter: `expression STRING, required: what it means`.
fn format_signature(parameter: &Parameter) -> String {
    let (name, kind, description) = (&parameter.name, &parameter.kind, &parameter.description);
    let required_suffix = if parameter.required { ", required" } else { "" };
    let separator = if description.is_empty() { "" } else { ": " };
    format!("{name} {kind}{required_suffix}{separator}{description}")
}

/// Prints the tools' schemas in OpenAI's format, as JSON
#[derive(Debug, Args)]
#[command(after_help = examples!["pillion tools schemas", "pillion tools schemas --category math"])]
pub(super) struct ToolSchemas {
    /// Only the tools of this category
    #[arg(long)]
    category: Option<String>,
}

impl RunCommand<Client> for ToolSchemas {
    fn run(self, client: &Client) -> CommandResult {
        let request = client.request(route::LIST_SCHEMAS, []);
        let category_query = self.category.map(|name| ("category", name));
        let list = request.query(category_query).send()?.decode()?;
        let exit_code = print_pretty(&list.schemas)?;
        warn_about_unavailable_servers(&list.unavailable_servers);
        Ok(exit_code)
    }
}

/// The tool of `pillion tools set-key` and `remove-key`.
#[derive(Debug, Args)]
pub(super) struct ToolKeyTarget {
    /// The tool's name
    name: String,
}

pub(super) fn list_keys(output: &JsonOption, client: &Client) -> CommandResult {
    let response = client.request(route::LIST_TOOL_KEYS, []).send()?;
    output.print(&response, |list| {
        let row = |ToolKeyEntry { tool, service, key }| [tool, service, key];
        format_table(["TOOL", "SERVICE", "KEY"], list.tools.into_iter().map(row))
    })
}

impl ToolKeyTarget {
    pub(super) fn set_key(&self, client: &Client) -> CommandResult {
        let request = client.request(route::SET_TOOL_KEY, [&self.name]);
        request.send_bytes(&read_key_body()?)?;
        print_result(&format!("stored the key of {} in the vault", self.name))
    }

    pub(super) fn remove_key(&self, client: &Client) -> CommandResult {
        let request = client.request(route::REMOVE_TOOL_KEY, [&self.name]);
        request.send()?;
        print_result(&format!("removed the key of {} from the vault", self.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_description_is_truncated() {
        assert_eq!(shorten(&"ü".repeat(100)), "ü".repeat(100));
        assert_eq!(shorten(&"ü".repeat(101)), format!("{}…", "ü".repeat(99)));
    }
}
