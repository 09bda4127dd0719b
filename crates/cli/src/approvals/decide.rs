use clap::Args;
use pillion_client::Client;
use pillion_wire::{ApprovalResponse, DecisionRequest, route};
use serde_json::{Map, Value};

use crate::dispatch::{CommandResult, RunCommand};
use crate::error::CliError;
use crate::input;
use crate::output::JsonOption;
use crate::sidecar::caller_for;
use pillion_gateway::pins::visible_line;

/// Approves a call, which then runs once with the arguments shown, or with changed arguments
#[derive(Debug, Args)]
#[command(after_help = examples![
    "pillion approvals approve 01a200bf-11d2-7f4e-9d3e-6c4f0e1f2a3b --user ada",
    "pillion approvals approve 01a200bf-11d2-7f4e-9d3e-6c4f0e1f2a3b --arguments '{\"to\": \"bob\"}'",
])]
pub(crate) struct ApproveCall {
    #[command(flatten)]
    decision: DecisionOptions,
    /// Runs the call with these arguments instead of its own: JSON, @FILE, or - for standard input.
    /// Keep redacted values as `pillion approvals show` prints them; they stand for the call's own
    /// values
    #[arg(long, value_name = "JSON")]
    arguments: Option<String>,
}

/// Denies a call
#[derive(Debug, Args)]
#[command(after_help = examples![
    "pillion approvals deny 01a200bf-11d2-7f4e-9d3e-6c4f0e1f2a3b --reason 'Not today'",
])]
pub(crate) struct DenyCall {
    #[command(flatten)]
    decision: DecisionOptions,
}

/// What `pillion approvals approve` and `deny` have in common.
#[derive(Debug, Args)]
struct DecisionOptions {
    /// The approval's ID, or its first 8 or more characters
    id: String,
    /// The reason, for the record; shown to the caller if the call is denied
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// The user who decides, for the record
    #[arg(long, value_name = "USER")]
    user: Option<String>,
    #[command(flatten)]
    output: JsonOption,
}

impl RunCommand<Client> for ApproveCall {
    fn run(self, client: &Client) -> CommandResult {
        let arguments = self.arguments.as_deref().map(read_arguments).transpose()?;
        self.decision.send(client, true, arguments)
    }
}

impl RunCommand<Client> for DenyCall {
    fn run(self, client: &Client) -> CommandResult {
        self.decision.send(client, false, None)
    }
}

impl DecisionOptions {
    fn send(
        self,
        client: &Client,
        approve: bool,
        arguments: Option<Map<String, Value>>,
    ) -> CommandResult {
        let decision = DecisionRequest {
            reason: self.reason,
            arguments,
        };
        let caller = caller_for(self.user.as_deref());
        let id = super::full_id(client, self.id)?;
        let route = if approve { route::APPROVE } else { route::DENY };
        let response = client
            .request(route, [&id])
            .caller(&caller)
            .send_json(&decision)
            .map_err(|error| super::unknown_id(error, &id))?;
        self.output
            .print(&response, |ApprovalResponse { approval, .. }| {
                let decider = approval.decided_by.unwrap_or_default();
                let (tool, status) = (approval.tool, approval.status);
                visible_line(&format!("{status} by {decider}: {tool}"))
            })
    }
}

/// Reads the value of `--arguments`.
fn read_arguments(option: &str) -> Result<Map<String, Value>, CliError> {
    let json = match option.strip_prefix('@') {
        Some(path) => std::fs::read(path).map_err(|error| {
            CliError::Usage(format!("cannot read the arguments from {path}: {error}"))
        })?,
        None if option == "-" => input::read_all()?,
        None => option.as_bytes().to_vec(),
    };
    serde_json::from_slice(&json)
        .map_err(|error| CliError::Usage(format!("the arguments are not a JSON object: {error}")))
}
