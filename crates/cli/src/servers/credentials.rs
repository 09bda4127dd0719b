use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use pillion_wire::route;
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};

use super::ServersContext;
use crate::dispatch::{CommandResult, RunCommand};
use crate::error::CliError;
use crate::input::read_secret;
use crate::mcp::credential::from_file;
use crate::output::{print_json, print_result};
use crate::sidecar::decode;
use crate::table::format_table;
use pillion_gateway::pins::visible_line;

/// Maximum size of a secret read from standard input, in bytes.
const MAX_SECRET_BYTES: u64 = 64 * 1024;

commands! {
    /// Manages the credentials of users for a server with credential = per_user or user_or_shared
    #[command(after_help = examples!["pillion servers credentials list weather"])]
    pub(super) enum CredentialsCommand: ServersContext {
        Set(SetCredential),
        List(ListCredentials),
        Remove(RemoveCredential),
    }
}

/// Sets a user's credential to a secret from standard input or a file, replacing the previous
/// one
#[derive(Debug, Args)]
#[command(after_help = examples![
    "pillion servers credentials set weather --user alice < token",
    "pillion servers credentials set weather --user bob --type basic --username bob --file password",
])]
pub(super) struct SetCredential {
    /// The server's name or ID
    server: String,
    /// The user, as named in calls
    #[arg(long, value_name = "NAME")]
    user: String,
    /// The type of the secret: a bearer token, an API key or a password
    #[arg(long = "type", value_name = "TYPE", default_value = "bearer", value_parser = ["bearer", "api-key", "basic"])]
    kind: String,
    /// The header of an API key [default: x-api-key]
    #[arg(long, value_name = "NAME")]
    header: Option<String>,
    /// The user name for a password
    #[arg(long, value_name = "NAME", required_if_eq("kind", "basic"))]
    username: Option<String>,
    /// Reads the secret from this file [default: standard input]
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
}

/// Lists the users who have a credential
#[derive(Debug, Args)]
#[command(after_help = examples!["pillion servers credentials list weather"])]
pub(super) struct ListCredentials {
    /// The server's name or ID
    server: String,
}

/// Removes a user's credential
#[derive(Debug, Args)]
#[command(after_help = examples!["pillion servers credentials remove weather --user alice"])]
pub(super) struct RemoveCredential {
    /// The server's name or ID
    server: String,
    /// The user
    #[arg(long, value_name = "NAME")]
    user: String,
}

impl RunCommand<ServersContext> for SetCredential {
    fn run(self, context: &ServersContext) -> CommandResult {
        let server = context.find(&self.server)?;
        let secret = match &self.file {
            Some(path) => from_file(path)?,
            None => read_secret_from_input()?,
        };
        let secret_text = secret.expose_secret();
        let mut authentication = match self.kind.as_str() {
            "api-key" => json!({"type": "api-key", "key": secret_text}),
            "basic" => json!({"type": "basic", "password": secret_text}),
            _ => json!({"type": "bearer", "token": secret_text}),
        };
        for (key, value) in [("header", self.header), ("username", self.username)] {
            if let Some(value) = value {
                authentication[key] = Value::String(value);
            }
        }
        let response = context
            .client
            .request(route::SET_SERVER_CREDENTIAL, [&server.id, &self.user])
            .send_json(&json!({ "authentication": authentication }))?;
        let user = decode(&response)?.credential.user;
        print_change(context, &server.name, &user, "set")
    }
}

impl RunCommand<ServersContext> for ListCredentials {
    fn run(self, context: &ServersContext) -> CommandResult {
        let server = context.find(&self.server)?;
        let client = &context.client;
        let request = client.request(route::LIST_SERVER_CREDENTIALS, [&server.id]);
        context.output.print(&request.send()?, |list| {
            let rows = list
                .credentials
                .into_iter()
                .map(|entry| [entry.user, entry.authentication, entry.set_at]);
            format_table(["USER", "CREDENTIAL", "SET"], rows)
        })
    }
}

impl RunCommand<ServersContext> for RemoveCredential {
    fn run(self, context: &ServersContext) -> CommandResult {
        let server = context.find(&self.server)?;
        context
            .client
            .request(route::REMOVE_SERVER_CREDENTIAL, [&server.id, &self.user])
            .send()?;
        print_change(context, &server.name, &self.user, "removed")
    }
}

fn print_change(context: &ServersContext, server: &str, user: &str, change: &str) -> CommandResult {
    if context.output.json {
        print_json(&json!({"server": server, "user": user, "done": change}).to_string())?;
        return Ok(ExitCode::SUCCESS);
    }
    let line = format!("{server}: the credential of {user} is {change}");
    print_result(&visible_line(&line))
}

fn read_secret_from_input() -> Result<SecretString, CliError> {
    let secret = read_secret(std::io::stdin().lock(), MAX_SECRET_BYTES)
        .map_err(|error| CliError::Usage(format!("cannot read standard input: {error}")))?;
    if secret.expose_secret().is_empty() {
        let message = "no secret is given: pass it on standard input or with --file";
        return Err(CliError::Usage(message.to_owned()));
    }
    Ok(secret)
}
