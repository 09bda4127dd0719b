use std::fmt::Write;

use clap::Args;
use pillion_client::Client;
use pillion_wire::{AcceptPin, PinEntry, PinResponse, RejectPin, route};
use serde_json::Value;

use super::dispatch::{CommandResult, RunCommand};
use super::output::{JsonOption, print_result};
use super::sidecar::{build_query_parameters, decode};
use super::table::{format_table, or_dash};
use pillion_gateway::pins::{visible, visible_line};

commands! {
    /// Shows tools of MCP servers whose definition has changed, and accepts or rejects the changes
    #[command(after_help = examples![
        "pillion pins list --changed",
        "pillion pins accept weather forecast",
    ])]
    pub(super) enum PinsCommand: Client {
        List(ListPins),
        /// Shows how a tool's definition has changed since it was accepted
        #[command(after_help = examples![
            "pillion pins diff weather forecast",
            "pillion pins diff files read --user alice",
        ])]
        Diff(PinnedTool) => PinnedTool::print_diff,
        Accept(AcceptTool),
        Reject(RejectTool),
    }
}

/// Lists the pinned tool definitions of MCP servers
#[derive(Debug, Args)]
#[command(after_help = examples![
    "pillion pins list",
    "pillion pins list --server weather --changed",
])]
pub(super) struct ListPins {
    /// Only tools of this server
    #[arg(long, value_name = "LABEL")]
    server: Option<String>,
    /// Only tools that are listed for this user alone
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// Only tools that wait for a decision: changed, renamed and new ones
    #[arg(long)]
    changed: bool,
    #[command(flatten)]
    output: JsonOption,
}

/// The pinned tool.
#[derive(Debug, Args)]
pub(super) struct PinnedTool {
    /// The server's label
    server: String,
    /// The tool's name on the server, without the prefix that Pillion adds
    tool: String,
    /// The user for whom the server lists the tool, if the server lists tools per user
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
}

/// Accepts a tool's current definition, or a new tool
#[derive(Debug, Args)]
#[command(after_help = examples!["pillion pins accept weather forecast"])]
pub(super) struct AcceptTool {
    #[command(flatten)]
    tool: PinnedTool,
    /// Accepts only the definition with this hash, as shown by `diff`
    #[arg(long, value_name = "SHA256")]
    hash: Option<String>,
}

/// Rejects a tool's current definition: the tool is blocked until the server offers another
/// definition
#[derive(Debug, Args)]
#[command(after_help = examples!["pillion pins reject weather forecast"])]
pub(super) struct RejectTool {
    #[command(flatten)]
    tool: PinnedTool,
    /// Rejects only the definition with this hash, as shown by `diff`
    #[arg(long, value_name = "SHA256")]
    hash: Option<String>,
}

impl RunCommand<Client> for ListPins {
    fn run(self, client: &Client) -> CommandResult {
        let filters = build_query_parameters([
            ("changed", Some(self.changed.to_string())),
            ("server", self.server),
            ("user", self.user),
        ]);
        let request = client.request(route::LIST_PINS, []);
        let response = request.query(filters).send()?;
        self.output.print(&response, |list| {
            let headings = ["SERVER", "TOOL", "USER", "STATUS", "SINCE", "HIDDEN"];
            format_table(headings, list.pins.iter().map(format_pin_row))
        })
    }
}

impl PinnedTool {
    fn print_diff(&self, client: &Client) -> CommandResult {
        let Self { server, tool, user } = self;
        let request = client.request(route::SHOW_PIN, [server, tool]);
        let user_query = user.as_ref().map(|user| ("user", user));
        let response = request.query(user_query).send()?;
        print_result(format_difference(&decode(&response)?).trim_end())
    }
}

impl RunCommand<Client> for AcceptTool {
    fn run(self, client: &Client) -> CommandResult {
        let PinnedTool { server, tool, user } = self.tool;
        let response = client
            .request(route::ACCEPT_PIN, [&server, &tool])
            .query(user.map(|user| ("user", user)))
            .send_json(&AcceptPin { hash: self.hash })?;
        let hash = decode(&response)?.pin.hash;
        print_result(&format!("accepted: {server} {tool} {hash}"))
    }
}

impl RunCommand<Client> for RejectTool {
    fn run(self, client: &Client) -> CommandResult {
        let PinnedTool { server, tool, user } = self.tool;
        let response = client
            .request(route::REJECT_PIN, [&server, &tool])
            .query(user.map(|user| ("user", user)))
            .send_json(&RejectPin { hash: self.hash })?;
        let hash = decode(&response)?.pin.pending_hash.unwrap_or_default();
        print_result(&format!("rejected: {server} {tool} {hash}"))
    }
}

fn format_pin_row(pin: &PinEntry) -> [String; 6] {
    let since = pin.pending_since.as_ref().unwrap_or(&pin.accepted_at);
    [
        pin.server.clone(),
        pin.tool.clone(),
        or_dash(pin.user.as_deref()),
        pin.status.clone(),
        since.clone(),
        pin.warnings.join("; "),
    ]
}

/// Returns the changes of a definition as text, with invisible characters escaped. Each change
/// begins with the path of the changed JSON value.
fn format_difference(response: &PinResponse) -> String {
    let pin = &response.pin;
    let Some(pending_hash) = &pin.pending_hash else {
        return visible_line(&format!(
            "{} {} has not changed since it was accepted",
            pin.server, pin.tool
        ));
    };
    let mut text = String::new();
    // The result of `write!` is ignored, because writing to a string cannot fail.
    let _ = if pin.hash.is_empty() {
        writeln!(text, "--- a new tool, not accepted")
    } else {
        writeln!(text, "--- accepted {}  {}", pin.accepted_at, pin.hash)
    };
    let pending_since = pin.pending_since.as_deref().unwrap_or_default();
    let _ = writeln!(text, "+++ offered since {pending_since}  {pending_hash}");
    for change in &response.changes {
        let _ = writeln!(text, "@ {}", visible(&change.path));
        for (sign, value) in [('-', &change.before), ('+', &change.after)] {
            for line in value.iter().flat_map(format_value_lines) {
                let _ = writeln!(text, "{sign} {line}");
            }
        }
    }
    for warning in &pin.warnings {
        let _ = writeln!(text, "! {warning}");
    }
    text
}

fn format_value_lines(value: &Value) -> Vec<String> {
    let text = match value {
        Value::String(text) => text.clone(),
        value => serde_json::to_string_pretty(value).unwrap_or_default(),
    };
    text.split('\n').map(visible).collect()
}
