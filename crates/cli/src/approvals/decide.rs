use std::process::ExitCode;

use clap::Args;
use pillion_client::{Caller, Client};
use pillion_wire::{ApprovalResponse, DecisionRequest, route};
use serde_json::{Map, Value};

use super::super::input;
use super::CliError;
use pillion_gateway::pins::visible_line;

/// `pillion approvals approve`
#[derive(Debug, Args)]
pub(super) struct Approve {
    #[command(flatten)]
    decide: Decide,
    /// Runs the call with these arguments instead of its own: JSON, @FILE, or - for standard input.
    /// Keep redacted values as `pillion approvals show` prints them; they stand for the call's own
    /// values
    #[arg(long, value_name = "JSON")]
    arguments: Option<String>,
}

impl Approve {
    pub(super) fn apply(self, client: &Client) -> Result<ExitCode, CliError> {
        let arguments = self.arguments.map(|given| arguments(&given)).transpose()?;
        self.decide.send(client, true, arguments)
    }
}

/// `pillion approvals deny`, and what it has in common with `pillion approvals approve`
#[derive(Debug, Args)]
pub(super) struct Decide {
    /// The approval's ID, or its first 8 or more characters
    id: String,
    /// The reason, for the record; shown to the caller if the call is denied
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// The user who decides, for the record
    #[arg(long, value_name = "USER")]
    user: Option<String>,
    /// Prints the sidecar's response as JSON
    #[arg(long)]
    json: bool,
}

impl Decide {
    pub(super) fn deny(self, client: &Client) -> Result<ExitCode, CliError> {
        self.send(client, false, None)
    }

    fn send(
        self,
        client: &Client,
        approve: bool,
        arguments: Option<Map<String, Value>>,
    ) -> Result<ExitCode, CliError> {
        let request = DecisionRequest {
            reason: self.reason,
            arguments,
        };
        let mut caller = Caller::default();
        if let Some(user) = self.user {
            caller = caller.user(user);
        }
        let id = super::full_id(client, self.id)?;
        let route = if approve { route::APPROVE } else { route::DENY };
        let decided = client.request(route, [&id]).caller(&caller);
        let response = decided
            .send_json(&request)
            .map_err(|error| super::unknown_id(error, &id))?;
        if self.json {
            super::print_json(&response.text())?;
            return Ok(ExitCode::SUCCESS);
        }
        let ApprovalResponse { approval, .. } = super::decode(&response)?;
        let by = approval.decided_by.unwrap_or_default();
        let (tool, status) = (approval.tool, approval.status);
        super::print(&visible_line(&format!("{status} by {by}: {tool}")))?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Reads the value of `--arguments`.
fn arguments(given: &str) -> Result<Map<String, Value>, CliError> {
    let text = match given.strip_prefix('@') {
        Some(path) => std::fs::read(path).map_err(|error| {
            CliError::Usage(format!("cannot read the arguments from {path}: {error}"))
        })?,
        None if given == "-" => input::read_all()?,
        None => given.as_bytes().to_vec(),
    };
    serde_json::from_slice(&text)
        .map_err(|error| CliError::Usage(format!("the arguments are not a JSON object: {error}")))
}
