use std::fmt::Write;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand};
use pillion_client::Client;
use pillion_wire::{AcceptPin, PinChange, PinEntry, PinResponse, route};
use serde_json::Value;

use super::table::table;
use super::{CliError, SocketOption, decode, print, print_json};
use pillion_gateway::pins::{visible, visible_line};

/// `pillion pins`
#[derive(Debug, Args)]
pub(super) struct Pins {
    #[command(flatten)]
    socket: SocketOption,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Lists the pinned tool definitions of MCP servers
    List(List),
    /// Shows how a tool's definition has changed since it was accepted
    Diff(PinnedToolArgs),
    /// Accepts a tool's current definition, or a new tool
    Accept(Accept),
}

/// `pillion pins list`
#[derive(Debug, Args)]
struct List {
    /// Only tools of this server
    #[arg(long, value_name = "LABEL")]
    server: Option<String>,
    /// Only tools that are listed for this user alone
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// Only tools that are not accepted: changed, renamed and new ones
    #[arg(long)]
    changed: bool,
    /// Prints the sidecar's response as JSON
    #[arg(long)]
    json: bool,
}

/// The tool.
#[derive(Debug, Args)]
struct PinnedToolArgs {
    /// The server's label
    server: String,
    /// The tool's name on the server, without a prefix
    tool: String,
    /// The user for whom the server lists the tool, if the server lists tools per user
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
}

/// `pillion pins accept`
#[derive(Debug, Args)]
struct Accept {
    #[command(flatten)]
    tool: PinnedToolArgs,
    /// Accepts only the definition with this hash, as shown by `diff`
    #[arg(long, value_name = "SHA256")]
    hash: Option<String>,
}

impl Pins {
    pub(super) fn apply(self) -> Result<ExitCode, CliError> {
        let client = self.socket.client(Duration::from_secs(30));
        match self.command {
            Command::List(list) => list.apply(&client),
            Command::Diff(PinnedToolArgs { server, tool, user }) => {
                let request = client.request(route::SHOW_PIN, [&server, &tool]);
                let response = request.query(user.map(|user| ("user", user))).send()?;
                let answer = decode(&response)?;
                print(difference(&answer).trim_end())?;
                Ok(ExitCode::SUCCESS)
            }
            Command::Accept(Accept { tool, hash }) => {
                let PinnedToolArgs { server, tool, user } = tool;
                let request = client.request(route::ACCEPT_PIN, [&server, &tool]);
                let request = request.query(user.map(|user| ("user", user)));
                let response = request.send_json(&AcceptPin { hash })?;
                let answer = decode(&response)?;
                print(&format!("accepted: {server} {tool} {}", answer.pin.hash))?;
                Ok(ExitCode::SUCCESS)
            }
        }
    }
}

impl List {
    fn apply(self, client: &Client) -> Result<ExitCode, CliError> {
        let mut query = vec![("changed", self.changed.to_string())];
        query.extend(self.server.map(|server| ("server", server)));
        query.extend(self.user.map(|user| ("user", user)));
        let response = client.request(route::LIST_PINS, []).query(query).send()?;
        if self.json {
            print_json(&response.text())?;
            return Ok(ExitCode::SUCCESS);
        }
        let list = decode(&response)?;
        let rows: Vec<_> = list.pins.iter().map(row).collect();
        print(&table(
            &["SERVER", "TOOL", "USER", "STATUS", "SINCE", "HIDDEN"],
            &rows,
        ))?;
        Ok(ExitCode::SUCCESS)
    }
}

fn row(pin: &PinEntry) -> [String; 6] {
    [
        pin.server.clone(),
        pin.tool.clone(),
        pin.user.clone().unwrap_or_else(|| "-".to_owned()),
        pin.status.clone(),
        pin.pending_since
            .as_ref()
            .unwrap_or(&pin.accepted_at)
            .clone(),
        pin.warnings.join("; "),
    ]
}

/// Returns the changes, path by path, with invisible characters escaped.
fn difference(answer: &PinResponse) -> String {
    let pin = &answer.pin;
    let mut text = String::new();
    // Writing to a string cannot fail.
    let Some(pending) = &pin.pending_hash else {
        let what = format!(
            "{} {} has not changed since it was accepted",
            pin.server, pin.tool
        );
        return visible_line(&what);
    };
    let _ = match pin.hash.is_empty() {
        true => writeln!(text, "--- a new tool, not accepted"),
        false => writeln!(text, "--- accepted {}  {}", pin.accepted_at, pin.hash),
    };
    let since = pin.pending_since.as_deref().unwrap_or_default();
    let _ = writeln!(text, "+++ offered since {since}  {pending}");
    for PinChange {
        path,
        before,
        after,
    } in &answer.changes
    {
        let _ = writeln!(text, "@ {}", visible(path));
        for (sign, value) in [('-', before), ('+', after)] {
            for line in value.iter().flat_map(lines) {
                let _ = writeln!(text, "{sign} {line}");
            }
        }
    }
    for warning in &pin.warnings {
        let _ = writeln!(text, "! {warning}");
    }
    text
}

fn lines(value: &Value) -> Vec<String> {
    let text = match value {
        Value::String(text) => text.clone(),
        other => serde_json::to_string_pretty(other).unwrap_or_default(),
    };
    text.split('\n').map(visible).collect()
}
