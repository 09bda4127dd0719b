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
        self.output
            .print(&response, |status| as_text(&status).trim_end().to_owned())
    }
}

fn as_text(status: &Status) -> String {
    let mut text = report::summary(status);
    if !status.servers.is_empty() {
        text.push_str(&format!("\n{}\n", report::servers(status)));
    }
    if !status.invalid_tools.is_empty() {
        let lines = status.invalid_tools.iter().map(report::invalid_tool);
        text.push_str(&format!("\n{}\n", lines.collect::<Vec<_>>().join("\n")));
    }
    if !status.tools.is_empty() {
        text.push_str(&format!("\n{}", report::tools(&status.tools)));
    }
    text
}
