use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use pillion_client::{Caller, Client};
use pillion_core::tool::ErrorCode;
use pillion_wire::{ExecuteResponse, Failure, ToolResponse, UnavailableServer, route};
use serde_json::{Map, Value, json};

use super::warn_about_unavailable_servers;
use crate::arguments::CommandArguments;
use crate::dispatch::{CommandResult, RunCommand};
use crate::output::{JsonOption, print, print_body, print_diagnostic};
use crate::sidecar::{build_caller, decode};
use pillion_gateway::pins::visible;

/// Calls a tool and prints its result
#[derive(Debug, Args)]
#[command(after_help = examples![
    "pillion tools call calculator expression='6 * 7'",
    "pillion tools call calculator '{\"expression\": \"6 * 7\"}'",
    "pillion tools call cancel_order '{\"number\": 8}' --user ada --wait 120",
    "pillion tools call calculator - < arguments.json",
])]
pub(super) struct CallTool {
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
    /// How many seconds to wait for an approval if the call needs one: 0 to 86400, limited by the
    /// sidecar's approvals.max_wait_ms (300 s by default)
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(0..=86_400))]
    wait: Option<u32>,
    #[command(flatten)]
    output: JsonOption,
}

impl CallTool {
    /// Returns the time to wait for an approval, in addition to the timeout of the request.
    pub(super) fn approval_wait(&self) -> Duration {
        Duration::from_secs(self.wait.unwrap_or_default().into())
    }
}

impl RunCommand<Client> for CallTool {
    fn run(self, client: &Client) -> CommandResult {
        let approval_wait = self.wait.map(|_| self.approval_wait());
        let command_arguments = CommandArguments::read(self.arguments)?;
        let mut caller = build_caller(self.user.as_deref());
        if let Some(channel) = self.channel {
            caller = caller.channel(channel);
        }
        if let Some(key) = self.idempotency_key {
            caller = caller.idempotency_key(key);
        }
        if let Some(duration) = approval_wait {
            caller = caller.wait_for_approval(duration);
        }
        let schema = if command_arguments.needs_schema() {
            fetch_parameter_types(client, &self.name, &caller)
        } else {
            Value::Null
        };
        let arguments = command_arguments.for_schema(&schema)?;
        let response = client
            .request(route::EXECUTE_TOOL, [&self.name])
            .tools([self.name.as_str()])
            .caller(&caller)
            .send_bytes(arguments.get().as_bytes())?;
        let outcome = decode(&response)?;
        let is_success = outcome.is_success();
        if self.output.json {
            print_body(&response)?;
        }
        match outcome {
            ExecuteResponse::Executed(execution) if is_success => {
                if !self.output.json {
                    let mut text = execution.result.text;
                    // The output is escaped only on a terminal, because programs need the unchanged
                    // output.
                    if std::io::stdout().is_terminal() {
                        text = visible(&text.replace("\r\n", "\n"));
                    }
                    print(&text)?;
                }
                return Ok(ExitCode::SUCCESS);
            }
            ExecuteResponse::Executed(execution) => {
                let result = execution.result;
                let error = result.error.as_deref().unwrap_or("unknown error");
                let code = result.error_code.as_deref().unwrap_or("internal_error");
                print_diagnostic(&format!("{error} ({code})"));
                // The error code is checked, not whether there is an approval ID, because the
                // metadata of a denied call also contains an approval ID.
                let approval_id = result.metadata.get("approval_id");
                if code == ErrorCode::ApprovalRequired.as_str()
                    && let Some(id) = approval_id.and_then(Value::as_str)
                {
                    print_diagnostic(&format!(
                        "approve the call with `pillion approvals approve {id}` and repeat this \
                        command, or pass --wait SECONDS"
                    ));
                }
            }
            ExecuteResponse::NotFound(failure) => {
                print_diagnostic(&format_failure(&failure));
                // After the error `unavailable`, no warnings about servers are printed, because the
                // error message already names the servers.
                if failure.error_code != ErrorCode::Unavailable.as_str() {
                    warn_about_unavailable_servers(&parse_unavailable_servers(&failure));
                }
            }
        }
        Ok(ExitCode::FAILURE)
    }
}

/// Returns the types of the tool's parameters as a schema, or null if the sidecar does not return
/// the tool. In that case the call itself reports the reason.
fn fetch_parameter_types(client: &Client, name: &str, caller: &Caller) -> Value {
    let request = client.request(route::SHOW_TOOL, [name]).caller(caller);
    let response = request.send().and_then(|response| response.decode());
    let Ok(ToolResponse { tool, .. }) = response else {
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
fn parse_unavailable_servers(failure: &Failure) -> Vec<UnavailableServer> {
    let servers = failure.details.get("unavailable_servers").cloned();
    let parsed = servers.and_then(|servers| serde_json::from_value(servers).ok());
    parsed.unwrap_or_default()
}

fn format_failure(failure: &Failure) -> String {
    let available_tools = failure.details.get("available_tools");
    let names: Vec<_> = available_tools
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let mut text = format!("{} ({})", failure.error, failure.error_code);
    if !names.is_empty() {
        text.push_str("; available: ");
        text.push_str(&names.join(", "));
    }
    text
}
