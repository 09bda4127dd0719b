use std::io::Read;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use pillion_wire::route;
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};

use super::super::mcp::credential::from_file;
use super::super::table::table;
use super::super::{CliError, decode, print, print_json};
use super::Context;
use pillion_gateway::pins::visible_line;

/// Maximum size of a secret read from standard input, in bytes.
const MAX_SECRET_BYTES: u64 = 64 * 1024;

/// `pillion servers credentials`
#[derive(Debug, Args)]
pub(super) struct Credentials {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Sets a user's credential to a secret from standard input or a file, replacing the previous
    /// one
    Set(Set),
    /// Lists the users who have a credential
    List {
        /// The server's name or ID
        server: String,
    },
    /// Removes a user's credential
    Remove {
        /// The server's name or ID
        server: String,
        /// The user
        #[arg(long, value_name = "NAME")]
        user: String,
    },
}

#[derive(Debug, Args)]
struct Set {
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

impl Credentials {
    pub(super) fn apply(self, context: &Context) -> Result<ExitCode, CliError> {
        match self.command {
            Command::Set(set) => set.apply(context),
            Command::List { server } => list(context, &server),
            Command::Remove { server, user } => {
                let server = context.find(&server)?;
                let credential = [server.id.as_str(), &user];
                let client = &context.client;
                client
                    .request(route::REMOVE_SERVER_CREDENTIAL, credential)
                    .send()?;
                done(context, &server.name, &user, "removed")
            }
        }
    }
}

impl Set {
    fn apply(self, context: &Context) -> Result<ExitCode, CliError> {
        let server = context.find(&self.server)?;
        let secret = match &self.file {
            Some(path) => from_file(path).map_err(CliError::Mcp)?,
            None => from_input()?,
        };
        let secret = secret.expose_secret();
        let mut authentication = match self.kind.as_str() {
            "api-key" => json!({"type": "api-key", "key": secret}),
            "basic" => json!({"type": "basic", "password": secret}),
            _ => json!({"type": "bearer", "token": secret}),
        };
        for (key, value) in [("header", self.header), ("username", self.username)] {
            if let Some(value) = value {
                authentication[key] = Value::String(value);
            }
        }
        let credential = [server.id.as_str(), &self.user];
        let request = context
            .client
            .request(route::SET_SERVER_CREDENTIAL, credential);
        let response = request.send_json(&json!({ "authentication": authentication }))?;
        let answer = decode(&response)?;
        done(context, &server.name, &answer.credential.user, "set")
    }
}

fn list(context: &Context, server: &str) -> Result<ExitCode, CliError> {
    let server = context.find(server)?;
    let client = &context.client;
    let request = client.request(route::LIST_SERVER_CREDENTIALS, [&server.id]);
    let response = request.send()?;
    if context.json {
        print_json(&response.text())?;
        return Ok(ExitCode::SUCCESS);
    }
    let list = decode(&response)?;
    let rows: Vec<_> = list
        .credentials
        .into_iter()
        .map(|entry| [entry.user, entry.authentication, entry.set_at])
        .collect();
    print(&table(&["USER", "CREDENTIAL", "SET"], &rows))?;
    Ok(ExitCode::SUCCESS)
}

fn done(context: &Context, server: &str, user: &str, what: &str) -> Result<ExitCode, CliError> {
    if context.json {
        print_json(&json!({"server": server, "user": user, "done": what}).to_string())?;
    } else {
        let line = format!("{server}: the credential of {user} is {what}");
        print(&visible_line(&line))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Reads standard input and trims white space.
fn from_input() -> Result<SecretString, CliError> {
    let mut text = String::new();
    let read = std::io::stdin()
        .take(MAX_SECRET_BYTES)
        .read_to_string(&mut text);
    read.map_err(|error| CliError::Usage(format!("cannot read standard input: {error}")))?;
    match text.trim() {
        "" => Err(CliError::Usage(
            "no secret is given: pass it on standard input or with --file".to_owned(),
        )),
        secret => Ok(secret.to_owned().into()),
    }
}
