use clap::Args;
use pillion_client::Response;
use pillion_gateway::pins::visible_line;
use pillion_management::servers::{ServerError, UpdateMode};
use pillion_wire::{ServerEntry, ServerResponse, route};
use serde_json::{Map, Value, json};

use super::list::format_summary;
use super::server_options::ServerOptions;
use super::{ServerArgument, ServersContext};
use crate::dispatch::{CommandResult, RunCommand};
use crate::error::CliError;
use crate::output::{print_body, print_pretty, print_result};
use crate::sidecar::decode;

/// Adds a server
#[derive(Debug, Args)]
#[command(after_help = examples![
    "pillion servers add weather --url https://mcp.example.com/mcp --bearer-env WEATHER_TOKEN",
    "pillion servers add notes --config /etc/pillion/pillion.toml --command npx -- -y notes-server",
])]
pub(super) struct AddServer {
    /// The server's name, 1 to 100 characters
    name: String,
    #[command(flatten)]
    options: ServerOptions,
    /// Adds the server without enabling it
    #[arg(long)]
    disabled: bool,
}

/// Changes a server; settings that are not given stay unchanged
#[derive(Debug, Args)]
#[command(after_help = examples![
    "pillion servers update weather --timeout-ms 5000",
    "pillion servers update weather --rate-limit per_minute=10,per_day=500",
])]
pub(super) struct UpdateServer {
    /// The server's name or ID
    #[arg(value_name = "SERVER")]
    server: String,
    /// The server's new name
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    #[command(flatten)]
    options: ServerOptions,
}

impl RunCommand<ServersContext> for AddServer {
    fn run(self, context: &ServersContext) -> CommandResult {
        let is_stdio_server = self.options.command.is_some();
        let mut keys = self.options.to_request_keys()?;
        keys.insert("name".to_owned(), json!(self.name));
        if self.disabled {
            keys.insert("enabled".to_owned(), json!(false));
        }
        if !is_stdio_server {
            let request = context.client.request(route::ADD_SERVER, []);
            return print_response(context, &request.send_json(&keys)?);
        }
        let operator_store = context.open_store()?;
        operator_store.check_name(&self.name)?;
        let record = operator_store.run(operator_store.open_catalog()?.add(keys))?;
        drop(operator_store);
        let server = context.refresh(&record.id)?;
        print_server(context, server.as_ref(), &record.name)
    }
}

impl RunCommand<ServersContext> for UpdateServer {
    fn run(self, context: &ServersContext) -> CommandResult {
        let mut keys = self.options.to_request_keys()?;
        if let Some(name) = self.name {
            keys.insert("name".to_owned(), json!(name));
        }
        if keys.is_empty() {
            let message = "no change is given: pass at least one option";
            return Err(CliError::Usage(message.to_owned()));
        }
        change(context, &self.server, keys)
    }
}

/// `pillion servers enable`
pub(super) fn enable(argument: &ServerArgument, context: &ServersContext) -> CommandResult {
    set_enabled(argument, context, true)
}

/// `pillion servers disable`
pub(super) fn disable(argument: &ServerArgument, context: &ServersContext) -> CommandResult {
    set_enabled(argument, context, false)
}

fn set_enabled(
    argument: &ServerArgument,
    context: &ServersContext,
    is_enabled: bool,
) -> CommandResult {
    let keys = Map::from_iter([("enabled".to_owned(), json!(is_enabled))]);
    change(context, &argument.name, keys)
}

/// Changes a server through the sidecar. If the server is a stdio server, or becomes one through
/// the change, changes the server directly in the store.
fn change(context: &ServersContext, name: &str, keys: Map<String, Value>) -> CommandResult {
    // If no sidecar is running, the server's current settings cannot be requested, but a stdio
    // server can still be changed in the store.
    let current_server = match context.find_added(name) {
        Ok(server) => Some(server),
        Err(CliError::Client(error)) if error.is_not_running() => None,
        Err(error) => return Err(error),
    };
    let known_server = current_server.as_ref();
    let is_stdio_server = known_server.is_none_or(|server| server.command.is_some());
    let is_in_store = known_server.is_none_or(|server| server.origin == "store");
    if !is_in_store || !(is_stdio_server || keys.contains_key("command")) {
        let id = current_server.map_or_else(|| name.to_owned(), |server| server.id);
        let request = context.client.request(route::CHANGE_SERVER, [&id]);
        return print_response(context, &request.send_json(&keys)?);
    }
    let operator_store = context.open_store()?;
    if let Some(new_name) = keys.get("name").and_then(Value::as_str) {
        operator_store.check_name(new_name)?;
    }
    let catalog = operator_store.open_catalog()?;
    let unknown_server = || {
        let key = name.to_owned();
        ServerError::NotFound { key }
    };
    let changed_record = operator_store.run(async {
        let store = &catalog.store;
        let record = match store.find_server(name).await? {
            Some(record) => record,
            None => store
                .find_server_by_name(name)
                .await?
                .ok_or_else(unknown_server)?,
        };
        catalog.change(&record, keys, UpdateMode::Patch).await
    })?;
    drop(catalog);
    drop(operator_store);
    let server = context.refresh(&changed_record.id)?;
    print_server(context, server.as_ref(), &changed_record.name)
}

/// Prints the changed server.
fn print_response(context: &ServersContext, response: &Response<ServerResponse>) -> CommandResult {
    print_server(context, Some(&decode(response)?.server), "")
}

fn print_server(
    context: &ServersContext,
    server: Option<&ServerEntry>,
    name: &str,
) -> CommandResult {
    match server {
        Some(server) if context.output.json => print_pretty(server),
        Some(server) => print_result(&format_summary(server)),
        None => print_result(&format!("{name}: stored")),
    }
}

/// `pillion servers remove`
pub(super) fn remove(argument: &ServerArgument, context: &ServersContext) -> CommandResult {
    let server = context.find_added(&argument.name)?;
    let request = context.client.request(route::REMOVE_SERVER, [&server.id]);
    let response = request.send()?;
    if context.output.json {
        return print_body(&response);
    }
    let name = visible_line(&server.name);
    print_result(&format!("{name}: removed, with its recorded calls"))
}
