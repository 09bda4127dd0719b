use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::process::ExitCode;

use clap::Args;
use pillion_client::Client;
use pillion_wire::{Failure, route};
use serde_json::Value;

use super::{CliError, SocketOption, complain, print};

/// `pillion events`
#[derive(Debug, Args)]
pub(super) struct Events {
    #[command(flatten)]
    socket: SocketOption,
    /// Only events of these types, divided by commas, such as call,approval.requested
    #[arg(long, value_name = "TYPES", default_value = "")]
    types: String,
    /// Print each event as a line of JSON
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
        let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | ',' | '_');
        if !types.chars().all(legal) {
            return Err(CliError::Model(
                "--types has names divided by commas".to_owned(),
            ));
        }
        let path = socket.path();
        // Says what is wrong as every other command does, where there is no sidecar.
        Client::new(&path).health()?;
        let mut stream = UnixStream::connect(&path).map_err(CliError::Streams)?;
        // A body of this version goes on until the connection ends, without a form of its own.
        let request = format!(
            "GET {}?types={} HTTP/1.0\r\nhost: pillion\r\naccept: text/event-stream\r\n\r\n",
            route::EVENTS,
            types
        );
        let asked = stream.write_all(request.as_bytes());
        asked.map_err(CliError::Streams)?;
        let mut lines = BufReader::new(stream).lines();
        let status = lines.next().transpose().map_err(CliError::Streams)?;
        let is_ok = status.is_some_and(|status| status.contains(" 200 "));
        let mut kind = String::new();
        for line in lines {
            let line = line.map_err(CliError::Streams)?;
            if !is_ok {
                if let Ok(refusal) = serde_json::from_str::<Failure>(&line) {
                    complain(&format!("{} ({})", refusal.error, refusal.error_code));
                }
            } else if let Some(name) = line.strip_prefix("event: ") {
                name.clone_into(&mut kind);
            } else if let Some(data) = line.strip_prefix("data: ") {
                show(&kind, data, json)?;
            }
        }
        Ok(if is_ok {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        })
    }
}

fn show(kind: &str, data: &str, json: bool) -> Result<(), CliError> {
    let mut data: Value = serde_json::from_str(data).map_err(CliError::Answer)?;
    if json {
        data["type"] = Value::from(kind);
        return print(&data.to_string());
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
    print(&line.replace(char::is_control, " "))
}
