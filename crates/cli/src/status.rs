use pillion_wire::route;
use std::process::ExitCode;

use clap::Args;
use pillion_client::Client;
use pillion_wire::Status as Answer;

use super::{CliError, SocketOption, decode, print, print_json, report};

/// `pillion status`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  pillion status
  pillion status --json | jq .calls")]
pub(super) struct Status {
    #[command(flatten)]
    socket: SocketOption,
    /// Prints the sidecar's response as JSON
    #[arg(long)]
    json: bool,
}

impl Status {
    pub(super) fn apply(self) -> Result<ExitCode, CliError> {
        let client = Client::new(self.socket.path());
        let response = client.request(route::STATUS, []).send()?;
        if self.json {
            print_json(&response.text())?;
            return Ok(ExitCode::SUCCESS);
        }
        let answer = decode(&response)?;
        print(of(&answer).trim_end())?;
        Ok(ExitCode::SUCCESS)
    }
}

fn of(answer: &Answer) -> String {
    let mut text = report::summary(answer);
    if !answer.servers.is_empty() {
        text.push('\n');
        text.push_str(&report::servers(answer));
        text.push('\n');
    }
    if !answer.invalid_tools.is_empty() {
        let faulty = answer.invalid_tools.iter().map(report::faulty_tool);
        text.push('\n');
        text.push_str(&faulty.collect::<Vec<_>>().join("\n"));
        text.push('\n');
    }
    if !answer.tools.is_empty() {
        text.push('\n');
        text.push_str(&report::tools(&answer.tools));
    }
    text
}
