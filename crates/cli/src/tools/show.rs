use clap::Args;
use pillion_client::Client;
use pillion_wire::{Parameter, ToolSummary, route};

use crate::dispatch::{CommandResult, RunCommand};
use crate::output::JsonOption;
use crate::sidecar::caller_for;
use pillion_gateway::pins::visible_line;

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
        let caller = caller_for(self.user.as_deref());
        let request = client.request(route::SHOW_TOOL, [&self.name]);
        let response = request.caller(&caller).send()?;
        self.output
            .print(&response, |response| as_text(&response.tool))
    }
}

/// Returns the tool's origin and description, and one line per parameter.
fn as_text(tool: &ToolSummary) -> String {
    let server = tool.server_label.as_ref().map(|label| {
        let url = tool.server_url.as_deref().unwrap_or_default();
        format!("{label} ({url})")
    });
    let facts = [
        ("name", Some(tool.name.clone())),
        ("category", Some(tool.category.clone())),
        ("server", server),
        ("named there", tool.server_tool.clone()),
        ("description", Some(tool.description.clone())),
    ];
    let parameters = tool.parameters.iter();
    let warnings = tool.warnings.iter();
    let lines: Vec<_> = facts
        .into_iter()
        .filter_map(|(name, value)| Some(line(name, &value?)))
        .chain(parameters.map(|parameter| line("parameter", &signature(parameter))))
        .chain(warnings.map(|warning| line("hidden", warning)))
        .collect();
    lines.join("\n")
}

fn line(name: &str, value: &str) -> String {
    format!("{name:<11} {}", visible_line(value))
}

/// Returns one line about a parameter: `expression STRING, required: what it means`.
fn signature(parameter: &Parameter) -> String {
    let Parameter {
        name,
        kind,
        description,
        ..
    } = parameter;
    let required = if parameter.required { ", required" } else { "" };
    let colon = if description.is_empty() { "" } else { ": " };
    format!("{name} {kind}{required}{colon}{description}")
}
