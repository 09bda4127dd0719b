use std::process::ExitCode;

use clap::Args;
use pillion_client::Response;
use pillion_wire::{ServerEntry, ServerResponse, route};
use serde_json::{Map, Value, json};

use super::super::{CliError, decode, print, print_json};
use super::Context;
use super::server_options::ServerOptions;
use super::show::summary_line;
use pillion_sidecar::servers::{How, ServerError};

/// `pillion servers add`
#[derive(Debug, Args)]
pub(super) struct Add {
    /// The server's name, 1 to 100 characters
    name: String,
    #[command(flatten)]
    options: ServerOptions,
    /// Adds the server without enabling it
    #[arg(long)]
    disabled: bool,
}

/// `pillion servers update`
#[derive(Debug, Args)]
pub(super) struct Update {
    /// The server's name or ID
    #[arg(value_name = "SERVER")]
    server: String,
    /// The server's new name
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    #[command(flatten)]
    options: ServerOptions,
}

impl Add {
    pub(super) fn apply(self, context: &Context) -> Result<ExitCode, CliError> {
        let is_program = self.options.command.is_some();
        let mut keys = self.options.keys()?;
        keys.insert("name".to_owned(), json!(self.name));
        if self.disabled {
            keys.insert("enabled".to_owned(), json!(false));
        }
        if !is_program {
            let request = context.client.request(route::ADD_SERVER, []);
            return print_answer(context, &request.send_json(&keys)?);
        }
        let operator = context.operator()?;
        operator.check_name(&self.name)?;
        let record = operator.run(operator.catalog()?.add(keys))?;
        drop(operator);
        let server = context.refresh(&record.id)?;
        print_server(context, server.as_ref(), &record.name)
    }
}

impl Update {
    pub(super) fn apply(self, context: &Context) -> Result<ExitCode, CliError> {
        let mut keys = self.options.keys()?;
        if let Some(name) = self.name {
            keys.insert("name".to_owned(), json!(name));
        }
        if keys.is_empty() {
            return Err(CliError::Usage(
                "no change is given: pass at least one option".to_owned(),
            ));
        }
        change(context, &self.server, keys)
    }
}

/// `pillion servers enable` and `disable`
pub(super) fn enable(context: &Context, name: &str, enabled: bool) -> Result<ExitCode, CliError> {
    let keys = Map::from_iter([("enabled".to_owned(), json!(enabled))]);
    change(context, name, keys)
}

/// Changes a server: through the sidecar, or on the store directly if the server is or becomes a
/// program.
fn change(context: &Context, name: &str, keys: Map<String, Value>) -> Result<ExitCode, CliError> {
    // Servers that are programs can be changed even if no sidecar is running.
    let found = match context.find_added(name) {
        Ok(found) => Some(found),
        Err(CliError::Client(error)) if error.is_not_running() => None,
        Err(error) => return Err(error),
    };
    let is_program = found.as_ref().is_none_or(|found| found.command.is_some());
    let is_of_store = found.as_ref().is_none_or(|found| found.origin == "store");
    if !is_of_store || !(is_program || keys.contains_key("command")) {
        let id = found.map_or_else(|| name.to_owned(), |found| found.id);
        let request = context.client.request(route::CHANGE_SERVER, [&id]);
        return print_answer(context, &request.send_json(&keys)?);
    }
    let operator = context.operator()?;
    if let Some(name) = keys.get("name").and_then(Value::as_str) {
        operator.check_name(name)?;
    }
    let catalog = operator.catalog()?;
    let record = operator.run(async {
        let store = &catalog.store;
        let record = match store.server(name).await? {
            Some(record) => Some(record),
            None => store.server_named(name).await?,
        };
        let record = record.ok_or(ServerError::NotFound)?;
        catalog.change(&record, keys, How::Patch).await
    })?;
    drop(catalog);
    drop(operator);
    let server = context.refresh(&record.id)?;
    print_server(context, server.as_ref(), &record.name)
}

/// Shows the sidecar's response.
fn print_answer(
    context: &Context,
    response: &Response<ServerResponse>,
) -> Result<ExitCode, CliError> {
    let answer = decode(response)?;
    print_server(context, Some(&answer.server), "")
}

fn print_server(
    context: &Context,
    server: Option<&ServerEntry>,
    name: &str,
) -> Result<ExitCode, CliError> {
    match server {
        Some(server) if context.json => {
            print_json(&serde_json::to_string_pretty(server).map_err(CliError::Answer)?)?;
        }
        Some(server) => print(&summary_line(server))?,
        None => print(&format!("{name}: stored"))?,
    }
    Ok(ExitCode::SUCCESS)
}
