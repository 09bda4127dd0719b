use std::io::{IsTerminal, stdout};
use std::process::ExitCode;

use clap::Args;
use pillion_client::Client;
use pillion_wire::{ToolList, ToolSummary, route};

use super::super::{CliError, print_diagnostic};
use pillion_gateway::pins::visible_line;

/// `pillion tools list`
#[derive(Debug, Args)]
pub(super) struct List {
    /// Only the tools of this category
    #[arg(long)]
    category: Option<String>,
    /// Prints the sidecar's response as JSON
    #[arg(long)]
    json: bool,
}

impl List {
    pub(super) fn apply(self, client: &Client) -> Result<ExitCode, CliError> {
        let category = self.category.as_deref().map(|name| ("category", name));
        let request = client.request(route::LIST_TOOLS, []);
        let response = request.query(category).send()?;
        let list = super::decode(&response)?;
        if self.json {
            super::print_json(&response.text())?;
        } else if !list.tools.is_empty() {
            super::print(&table(&list, stdout().is_terminal()))?;
        }
        if list.tools.is_empty() {
            print_diagnostic(&match &self.category {
                Some(category) => format!("there are no tools in the category '{category}'"),
                None => "there are no tools".to_owned(),
            });
        }
        super::warn_of_unavailable(&list.unavailable_servers);
        super::warn_of_faulty(&list.invalid_tools);
        Ok(ExitCode::SUCCESS)
    }
}

/// Maximum length of a description on a terminal, in characters.
const MAX_DESCRIPTION_CHARS: usize = 100;

/// Returns one line per tool: the name and the first line of the description, which is truncated on
/// a terminal.
fn table(list: &ToolList, is_seen: bool) -> String {
    let width = list.tools.iter().map(|tool| tool.name.len()).max();
    let width = width.unwrap_or_default();
    let line = |tool: &ToolSummary| {
        let description = tool.description.lines().next().unwrap_or_default();
        let description = match is_seen {
            true => truncate(description),
            false => description.to_owned(),
        };
        visible_line(&format!("{:width$}  {description}", tool.name))
    };
    list.tools.iter().map(line).collect::<Vec<_>>().join("\n")
}

fn truncate(description: &str) -> String {
    match description.chars().count() > MAX_DESCRIPTION_CHARS {
        true => description
            .chars()
            .take(MAX_DESCRIPTION_CHARS - 1)
            .chain(['…'])
            .collect(),
        false => description.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_description_is_truncated() {
        assert_eq!(truncate(&"ü".repeat(100)), "ü".repeat(100));
        assert_eq!(truncate(&"ü".repeat(101)), format!("{}…", "ü".repeat(99)));
    }
}
