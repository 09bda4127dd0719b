use std::io::{IsTerminal, stdout};
use std::process::ExitCode;

use clap::Args;
use pillion_client::Client;
use pillion_wire::{ToolList, ToolSummary, route};

use super::{warn_about_invalid_tools, warn_about_unavailable_servers};
use crate::dispatch::{CommandResult, RunCommand};
use crate::output::{JsonOption, print, print_body, print_diagnostic};
use crate::sidecar::decode;
use crate::table::{first_line, truncate};
use pillion_gateway::pins::visible_line;

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
        let category = self.category.as_ref().map(|name| ("category", name));
        let request = client.request(route::LIST_TOOLS, []);
        let response = request.query(category).send()?;
        let list = decode(&response)?;
        if self.output.json {
            print_body(&response)?;
        } else if !list.tools.is_empty() {
            print(&table(&list, stdout().is_terminal()))?;
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
fn table(list: &ToolList, on_terminal: bool) -> String {
    let lengths = list.tools.iter().map(|tool| tool.name.len());
    let width = lengths.max().unwrap_or_default();
    let line = |tool: &ToolSummary| {
        let mut description = first_line(&tool.description);
        if on_terminal {
            description = shorten(&description);
        }
        visible_line(&format!("{:width$}  {description}", tool.name))
    };
    list.tools.iter().map(line).collect::<Vec<_>>().join("\n")
}

fn shorten(description: &str) -> String {
    if description.chars().count() <= MAX_DESCRIPTION_CHARS {
        return description.to_owned();
    }
    truncate(description, MAX_DESCRIPTION_CHARS - 1, "…")
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
