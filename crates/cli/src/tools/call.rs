use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use pillion_client::{Caller, Client};
use pillion_core::tool::ErrorCode;
use pillion_wire::{ExecuteResponse, Failure, ToolResponse, UnavailableServer, route};
use serde_json::{Map, Value, json};

use super::super::{CliError, print_diagnostic};
use crate::arguments::Arguments;
use pillion_gateway::pins::visible;

/// `pillion tools call`
#[derive(Debug, Args)]
pub(super) struct Call {
    /// The tool's name or an alias of it
    name: String,
    /// The arguments: KEY=VALUE pairs, a JSON object, `-` to read the object from standard input, or
    /// `@FILE` to read it from a file
    #[arg(value_name = "KEY=VALUE | JSON")]
    arguments: Vec<String>,
    /// The user on whose behalf the call runs
    #[arg(long)]
    user: Option<String>,
    /// The channel or conversation that the call comes from
    #[arg(long)]
    channel: Option<String>,
    /// The idempotency key: a repeated call with the same key does not run again and has the same
    /// result
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
    /// How long to wait for an approval if the call needs one: 0 to 86400 s, limited by the
    /// sidecar's approvals.max_wait_ms (300 s by default)
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(0..=86_400))]
    wait: Option<u32>,
    /// Prints the sidecar's response as JSON
    #[arg(long)]
    json: bool,
}

impl Call {
    /// Returns how long the command may wait in addition to the timeout.
    pub(super) fn waiting(&self) -> Duration {
        Duration::from_secs(self.wait.unwrap_or_default().into())
    }

    pub(super) fn apply(self, client: &Client) -> Result<ExitCode, CliError> {
        let wait = self.wait.map(|_| self.waiting());
        let arguments = Arguments::read(self.arguments)?;
        let mut caller = Caller::default();
        if let Some(user) = self.user {
            caller = caller.user(user);
        }
        if let Some(channel) = self.channel {
            caller = caller.channel(channel);
        }
        if let Some(key) = self.idempotency_key {
            caller = caller.idempotency_key(key);
        }
        if let Some(wait) = wait {
            caller = caller.wait_for_approval(wait);
        }
        let schema = match arguments.needs_schema() {
            true => schema_of(client, &self.name, &caller),
            false => Value::Null,
        };
        let arguments = arguments.for_schema(&schema)?;
        let request = client
            .request(route::EXECUTE_TOOL, [&self.name])
            .tools([self.name.as_str()])
            .caller(&caller);
        let response = request.send_bytes(arguments.get().as_bytes())?;
        let answer = super::decode(&response)?;
        let is_success = answer.is_success();
        if self.json {
            super::print_json(&response.text())?;
        }
        match answer {
            ExecuteResponse::Executed(execution) if is_success => {
                if !self.json {
                    let text = execution.result.text;
                    // Output to a program is not escaped.
                    let is_seen = std::io::stdout().is_terminal();
                    super::print(&match is_seen {
                        true => visible(&text.replace("\r\n", "\n")),
                        false => text,
                    })?;
                }
                return Ok(ExitCode::SUCCESS);
            }
            ExecuteResponse::Executed(execution) => {
                let outcome = execution.result;
                let error = outcome.error.as_deref().unwrap_or("unknown error");
                let code = outcome.error_code.as_deref().unwrap_or("internal_error");
                print_diagnostic(&format!("{error} ({code})"));
                // A denial names its approval, too.
                let id = outcome.metadata.get("approval_id");
                if code == ErrorCode::ApprovalRequired.as_str()
                    && let Some(id) = id.and_then(|id| id.as_str())
                {
                    print_diagnostic(&format!(
                        "approve the call with `pillion approvals approve {id}` and repeat this \
                        command, or pass --wait SECONDS"
                    ));
                }
            }
            ExecuteResponse::NotFound(failure) => {
                print_diagnostic(&refusal(&failure));
                // An `unavailable` error already names the servers.
                if failure.error_code != ErrorCode::Unavailable.as_str() {
                    super::warn_of_unavailable(&unavailable_servers(&failure));
                }
            }
        }
        Ok(ExitCode::FAILURE)
    }
}

/// Returns the types of the tool's parameters as a schema; null if they cannot be read: then the
/// call fails too, with the reason.
fn schema_of(client: &Client, name: &str, caller: &Caller) -> Value {
    let request = client.request(route::SHOW_TOOL, [name]).caller(caller);
    let answer = request.send().and_then(|response| response.decode()).ok();
    let Some(ToolResponse { tool, .. }) = answer else {
        return Value::Null;
    };
    let properties = tool.parameters.into_iter().map(|parameter| {
        let schema = match parameter.kind.as_str() {
            "ANY" => json!({}),
            kind => json!({"type": kind.to_ascii_lowercase()}),
        };
        (parameter.name, schema)
    });
    json!({"properties": properties.collect::<Map<_, _>>()})
}

/// Returns the unavailable servers that may have the tool.
fn unavailable_servers(failure: &Failure) -> Vec<UnavailableServer> {
    let servers = failure.details.get("unavailable_servers").cloned();
    let servers = servers.map(serde_json::from_value);
    servers.and_then(Result::ok).unwrap_or_default()
}

fn refusal(failure: &Failure) -> String {
    let available = failure.details.get("available_tools");
    let names: Vec<_> = available
        .and_then(|names| names.as_array())
        .into_iter()
        .flatten()
        .filter_map(|name| name.as_str())
        .collect();
    let mut text = format!("{} ({})", failure.error, failure.error_code);
    if !names.is_empty() {
        text.push_str("; available: ");
        text.push_str(&names.join(", "));
    }
    text
}
