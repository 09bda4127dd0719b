use clap::Args;
use pillion_client::Client;
use pillion_wire::{Status, route};

use super::dispatch::{CommandResult, RunCommand};
use super::output::JsonOption;
use super::report;

/// Shows the status of a running sidecar
#[derive(Debug, Args)]
#[command(after_help = examples!["pillion status", "pillion status --json | jq .calls"])]
pub(super) struct StatusCommand {
    #[command(flatten)]
    output: JsonOption,
}

impl RunCommand<Client> for StatusCommand {
    fn run(self, client: &Client) -> CommandResult {
        let response = client.request(route::STATUS, []).send()?;
        self.output.print(&response, |status| {
            format_status(&status).trim_end().to_owned()
        })
    }
}

fn format_status(status: &Status) -> String {
    let mut text = report::format_summary(status);
    if !status.servers.is_empty() {
        text.push_str(&format!("\n{}\n", report::format_servers(status)));
    }
    if !status.invalid_tools.is_empty() {
        let lines = status.invalid_tools.iter().map(report::format_invalid_tool);
        text.push_str(&format!("\n{}\n", lines.collect::<Vec<_>>().join("\n")));
    }
    if !status.tools.is_empty() {
        text.push_str(&format!("\n{}", report::format_tools(&status.tools)));
    }
    text
}
