mod decide;
mod list;
mod show;

use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand};
use pillion_client::{Client, ClientError};
use pillion_wire::route;

use super::{CliError, SocketOption, decode, print, print_json};

/// `pillion approvals`
#[derive(Debug, Args)]
pub(super) struct Approvals {
    #[command(flatten)]
    socket: SocketOption,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Lists the calls that wait for approval, the newest first
    List(list::List),
    /// Shows a call and its decision
    Show(show::Show),
    /// Approves a call, which then runs once with the arguments shown, or with changed arguments
    Approve(decide::Approve),
    /// Denies a call
    Deny(decide::Decide),
}

/// Minimum length of the beginning of an ID.
const MIN_PREFIX: usize = 8;
const ID_LENGTH: usize = 36;

/// Returns the ID of the only pending approval whose ID begins with `given`, or else `given`.
fn full_id(client: &Client, given: String) -> Result<String, CliError> {
    if !(MIN_PREFIX..ID_LENGTH).contains(&given.len()) {
        return Ok(given);
    }
    let query = [
        ("status", "pending".to_owned()),
        ("limit", "1000".to_owned()),
    ];
    let response = client.request(route::LIST_APPROVALS, []).query(query);
    let list = decode(&response.send()?)?;
    if list.next.is_some() {
        // Another approval on the next page may begin in the same way.
        return Ok(given);
    }
    let ids = list.approvals.into_iter().map(|approval| approval.id);
    let mut ids = ids.filter(|id| id.starts_with(&given));
    match (ids.next(), ids.next()) {
        (Some(_), Some(_)) => Err(CliError::Usage(format!(
            "several approvals have ids that begin with '{given}': write more of the id"
        ))),
        (Some(id), None) => Ok(id),
        (None, _) => Ok(given),
    }
}

/// Returns the error of a request for an approval, with the ID if there is none with that ID.
fn unknown_id(error: ClientError, id: &str) -> CliError {
    CliError::with_id(error, id, "pillion approvals list")
}

impl Approvals {
    pub(super) fn apply(self) -> Result<ExitCode, CliError> {
        let client = self.socket.client(Duration::from_secs(30));
        match self.command {
            Command::List(list) => list.apply(&client),
            Command::Show(show) => show.apply(&client),
            Command::Approve(approve) => approve.apply(&client),
            Command::Deny(decide) => decide.deny(&client),
        }
    }
}
