use std::process::ExitCode;

use clap::Args;
use pillion_client::Client;
use pillion_wire::{ToolList, ToolSummary};

use super::super::CliError;
use crate::pins::visible_line;

/// `pillion tools list`
#[derive(Debug, Args)]
pub(super) struct List {
    /// Only the tools of this category
    #[arg(long)]
    category: Option<String>,
    /// Print the sidecar's whole answer as JSON
    #[arg(long)]
    json: bool,
}

impl List {
    pub(super) fn apply(self, client: &Client) -> Result<ExitCode, CliError> {
        let body = client.raw().list_tools(self.category.as_deref())?;
        let list: ToolList = super::decode(&body)?;
        if self.json {
            super::print_json(&String::from_utf8_lossy(&body))?;
        } else if !list.tools.is_empty() {
            super::print(&table(&list))?;
        }
        super::warn_of(&list.unavailable_servers);
        super::warn_of_faulty(&list.faulty_tools);
        Ok(ExitCode::SUCCESS)
    }
}

/// A line a tool: its name and the first line of its description.
fn table(list: &ToolList) -> String {
    let width = list.tools.iter().map(|tool| tool.name.len()).max();
    let width = width.unwrap_or_default();
    let line = |tool: &ToolSummary| {
        let description = tool.description.lines().next().unwrap_or_default();
        visible_line(&format!("{:width$}  {description}", tool.name))
    };
    list.tools.iter().map(line).collect::<Vec<_>>().join("\n")
}
