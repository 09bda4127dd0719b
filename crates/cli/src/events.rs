use std::process::ExitCode;

use clap::Args;
use pillion_client::Client;
use pillion_wire::route;
use serde_json::Value;

use super::dispatch::{CommandResult, RunCommand};
use super::error::CliError;
use super::event_stream::{SidecarEvents, StreamedEvent};
use super::output::{print, print_json};
use super::typed;
use pillion_gateway::pins::visible_line;

/// Streams the events of a running sidecar
#[derive(Debug, Args)]
#[command(after_help = examples![
    "pillion events",
    "pillion events --types call,approval.requested --json",
])]
pub(super) struct EventsCommand {
    /// Only events of these types, separated by commas, such as call,approval.requested
    #[arg(long, value_name = "TYPES")]
    types: Option<String>,
    /// Prints each event as one line of JSON
    #[arg(long)]
    json: bool,
}

impl RunCommand<Client> for EventsCommand {
    fn run(self, client: &Client) -> CommandResult {
        let types = self.types.unwrap_or_default();
        let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | ',' | '_');
        if !types.chars().all(is_allowed) {
            return Err(CliError::Usage(format!(
                "invalid value '{types}' for --types: expected names of event types, separated by \
                commas"
            )));
        }
        let target = format!("{}?types={types}", route::WATCH_EVENTS.path);
        let mut events = SidecarEvents::open(client.socket_path(), &target, &[], None)?;
        while let Some(event) = events.next()? {
            if self.json {
                print_json(&event.to_json())?;
            } else if event.kind != "ready" {
                print(&to_line(event))?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn to_line(event: StreamedEvent) -> String {
    let StreamedEvent { kind, mut data } = event;
    let members = data.as_object_mut();
    let timestamp = members.and_then(|members| members.shift_remove("at"));
    let time = timestamp
        .as_ref()
        .and_then(Value::as_str)
        .unwrap_or_default();
    let mut line = format!("{time}  {kind}");
    for (name, value) in data.as_object().into_iter().flatten() {
        if !value.is_null() {
            line.push_str(&format!("  {name}={}", typed::to_text(value)));
        }
    }
    visible_line(&line)
}
