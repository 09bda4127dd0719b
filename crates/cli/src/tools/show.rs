use std::process::ExitCode;

use clap::Args;
use pillion_client::{Caller, Client};
use pillion_wire::{Parameter, ToolSummary, route};

use super::super::CliError;
use pillion_gateway::pins::visible_line;

/// `pillion tools show`
#[derive(Debug, Args)]
pub(super) struct Show {
    /// The tool's name, or an alias of it
    #[arg(value_name = "NAME")]
    name: String,
    /// Includes the tools that are listed for this user
    #[arg(long)]
    user: Option<String>,
    /// Prints the sidecar's response as JSON
    #[arg(long)]
    json: bool,
}

impl Show {
    pub(super) fn apply(self, client: &Client) -> Result<ExitCode, CliError> {
        let caller = self
            .user
            .map_or_else(Caller::default, |user| Caller::default().user(user));
        let request = client.request(route::SHOW_TOOL, [&self.name]);
        let response = request.caller(&caller).send()?;
        let answer = super::decode(&response)?;
        if self.json {
            super::print_json(&response.text())?;
        } else {
            super::print(&text_of(&answer.tool))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Returns the tool's origin and description, and one line per parameter.
fn text_of(tool: &ToolSummary) -> String {
    let with_label = |label: &String| {
        let url = tool.server_url.as_deref().unwrap_or_default();
        format!("{label} ({url})")
    };
    let server = tool.server_label.as_ref().map(with_label);
    let lines = [
        ("name", Some(tool.name.clone())),
        ("category", Some(tool.category.clone())),
        ("server", server),
        ("named there", tool.server_tool.clone()),
        ("description", Some(tool.description.clone())),
    ];
    let lines = lines.into_iter();
    let lines = lines.filter_map(|(name, value)| Some(line(name, &value?)));
    let parameters = tool
        .parameters
        .iter()
        .map(|it| line("parameter", &signature(it)));
    let warnings = tool.warnings.iter().map(|it| line("hidden", it));
    let lines: Vec<_> = lines.chain(parameters).chain(warnings).collect();
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
