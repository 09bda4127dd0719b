use std::process::ExitCode;

use clap::Args;
use pillion_wire::route;
use serde_json::Value;

use super::event_stream::EventStream;
use super::{CliError, SocketOption, print, print_json};
use pillion_gateway::pins::visible_line;

/// `pillion events`
#[derive(Debug, Args)]
pub(super) struct Events {
    #[command(flatten)]
    socket: SocketOption,
    /// Only events of these types, separated by commas, such as call,approval.requested
    #[arg(long, value_name = "TYPES")]
    types: Option<String>,
    /// Prints each event as one line of JSON
    #[arg(long)]
    json: bool,
}

impl Events {
    pub(super) fn apply(self) -> Result<ExitCode, CliError> {
        let Self {
            socket,
            types,
            json,
        } = self;
        let types = types.unwrap_or_default();
        let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | ',' | '_');
        if !types.chars().all(legal) {
            return Err(CliError::Model(
                "--types takes names separated by commas".to_owned(),
            ));
        }
        let target = format!("{}?types={types}", route::WATCH_EVENTS.path);
        let mut events = EventStream::open(&socket.path(), &target, &[], None)?;
        while let Some(event) = events.next()? {
            show(&event.kind, &event.data, json)?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn show(kind: &str, data: &str, json: bool) -> Result<(), CliError> {
    let mut data: Value = serde_json::from_str(data).map_err(CliError::Answer)?;
    if json {
        data["type"] = Value::from(kind);
        return print_json(&data.to_string());
    }
    if kind == "ready" {
        return Ok(());
    }
    let mut line = String::new();
    let members = data.as_object_mut();
    let at = members.and_then(|members| members.shift_remove("at"));
    line.push_str(at.as_ref().and_then(Value::as_str).unwrap_or_default());
    line.push_str("  ");
    line.push_str(kind);
    for (name, value) in data.as_object().into_iter().flatten() {
        match value {
            Value::Null => {}
            Value::String(text) => line.push_str(&format!("  {name}={text}")),
            other => line.push_str(&format!("  {name}={other}")),
        }
    }
    print(&visible_line(&line))
}
