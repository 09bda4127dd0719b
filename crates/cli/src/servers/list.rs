use std::process::ExitCode;

use clap::Args;
use pillion_client::ClientError;
use pillion_gateway::pins::visible_line;
use pillion_wire::{PinEntry, ServerEntry, ServerRateLimit, ToolList, ToolSummary, route};

use super::{ServerArgument, ServersContext};
use crate::dispatch::{CommandResult, RunCommand};
use crate::error::CliError;
use crate::output::{print, print_body, print_diagnostic, print_pretty, print_result};
use crate::sidecar::{build_caller, decode};
use crate::table::{first_line, format_table, or_dash};
use crate::tools::warn_about_unavailable_servers;

/// Lists the servers and their status
#[derive(Debug, Args)]
#[command(after_help = examples!["pillion servers list", "pillion servers list --json"])]
pub(super) struct ListServers;

impl RunCommand<ServersContext> for ListServers {
    fn run(self, context: &ServersContext) -> CommandResult {
        let response = context.client.request(route::LIST_SERVERS, []).send()?;
        context.output.print(&response, |list| {
            let headings = [
                "NAME", "STATUS", "TOOLS", "CALLS", "FAILED", "ORIGIN", "ADDRESS", "ERROR",
            ];
            format_table(headings, list.servers.iter().map(format_server_row))
        })
    }
}

fn format_server_row(server: &ServerEntry) -> [String; 8] {
    let status = if server.enabled {
        server.status.clone()
    } else {
        "disabled".to_owned()
    };
    [
        server.name.clone(),
        status,
        server.tool_count.to_string(),
        server.calls.total.to_string(),
        server.calls.failed.to_string(),
        server.origin.clone(),
        server_address(server),
        first_line(server.error.as_deref().unwrap_or_default()),
    ]
}

/// Returns the server's URL or program.
fn server_address(server: &ServerEntry) -> String {
    match &server.command {
        Some(program) => format!("program {program}"),
        None => server.url.clone().unwrap_or_default(),
    }
}

/// `pillion servers show`
pub(super) fn show(argument: &ServerArgument, context: &ServersContext) -> CommandResult {
    let server = context.find(&argument.name)?;
    if context.output.json {
        return print_pretty(&server);
    }
    let or_default = |text: Option<&str>| text.unwrap_or("default").to_owned();
    let headers = (!server.headers.is_empty()).then(|| server.headers.join(", "));
    let max_concurrent = server.max_concurrent.map(|max| max.to_string());
    let protocol = server.protocol_version.as_deref().unwrap_or("newest");
    let rate_limit = server.rate_limit.map(format_rate_limit);
    let calls = format!("{}, {} failed", server.calls.total, server.calls.failed);
    let last_connected_at = server.last_connected_at.as_deref();
    let facts = [
        ("name", server.name.clone()),
        ("id", server.id.clone()),
        ("description", or_dash(server.description.as_deref())),
        ("origin", server.origin.clone()),
        ("address", server_address(&server)),
        ("transport", server.transport.clone()),
        ("handshake", server.handshake.clone()),
        ("protocol", protocol.to_owned()),
        ("authentication", server.authentication.kind.clone()),
        ("credential", server.credential.clone()),
        ("headers", or_dash(headers)),
        ("timeout", format!("{} ms", server.timeout)),
        ("retry attempts", server.retry_attempts.to_string()),
        ("tool prefix", server.tool_prefix.clone()),
        ("approval", or_default(server.require_approval.as_deref())),
        ("pin", or_default(server.pin.as_deref())),
        ("new tools", or_default(server.new_tools.as_deref())),
        ("rate limit", or_dash(rate_limit)),
        ("max concurrent", or_default(max_concurrent.as_deref())),
        ("enabled", server.enabled.to_string()),
        ("status", server.status.clone()),
        ("error", or_dash(server.error.as_deref())),
        ("tools", server.tool_count.to_string()),
        ("calls", calls),
        ("last connected", or_dash(last_connected_at)),
        ("created", or_dash(server.created_at.as_deref())),
        ("updated", or_dash(server.updated_at.as_deref())),
    ];
    let lines: Vec<_> = facts
        .into_iter()
        .map(|(name, value)| format!("{name:<15} {}", visible_line(&value)))
        .collect();
    print_result(&lines.join("\n"))
}

fn format_rate_limit(limit: ServerRateLimit) -> String {
    let windows = [
        (limit.per_minute, "minute"),
        (limit.per_hour, "hour"),
        (limit.per_day, "day"),
    ];
    let limits: Vec<_> = windows
        .into_iter()
        .filter_map(|(calls, window)| Some(format!("{} per {window}", calls?)))
        .collect();
    limits.join(", ")
}

/// Returns a one-line summary of a server.
pub(super) fn format_summary(server: &ServerEntry) -> String {
    let state = if server.enabled {
        "enabled"
    } else {
        "disabled"
    };
    let name = visible_line(&server.name);
    format!(
        "{name}: {state}, {}, id {}",
        server_address(server),
        server.id
    )
}

/// Lists the tools of a server
#[derive(Debug, Args)]
#[command(after_help = examples![
    "pillion servers tools weather",
    "pillion servers tools weather --user alice",
])]
pub(super) struct ListServerTools {
    /// The server's name or ID
    server: String,
    /// The user whose tools are listed, if the server lists tools per user
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
}

impl RunCommand<ServersContext> for ListServerTools {
    fn run(self, context: &ServersContext) -> CommandResult {
        let server = context.find(&self.server)?;
        let user = self.user.as_deref();
        let caller = build_caller(user);
        let client = &context.client;
        let request = client.request(route::LIST_SERVER_TOOLS, [&server.id]);
        let response = request.caller(&caller).send()?;
        let list = decode(&response)?;
        if context.output.json {
            print_body(&response)?;
        } else {
            let headings = ["NAME", "SERVER TOOL", "DESCRIPTION"];
            let rows = list.tools.iter().map(format_tool_row);
            print(&format_table(headings, rows))?;
        }
        warn_about_unavailable_servers(&list.unavailable_servers);
        for pin in list_blocked_tools(context, &server.name, user, &list)? {
            let (tool, pin_user) = (pin.tool, pin.user);
            let user_option = pin_user.map_or_else(String::new, |name| format!(" --user {name}"));
            print_diagnostic(&format!(
                "tool '{tool}' is blocked: the server has changed, renamed or added the tool since \
                the server's tools were accepted; see `pillion pins diff {} {tool}{user_option}`",
                server.name
            ));
        }
        let is_unavailable = !list.unavailable_servers.is_empty();
        Ok(ExitCode::from(u8::from(is_unavailable)))
    }
}

fn format_tool_row(tool: &ToolSummary) -> [String; 3] {
    [
        tool.name.clone(),
        tool.server_tool.clone().unwrap_or_default(),
        first_line(&tool.description),
    ]
}

/// Returns the changed tools that are blocked and therefore not listed.
fn list_blocked_tools(
    context: &ServersContext,
    server_name: &str,
    user: Option<&str>,
    list: &ToolList,
) -> Result<Vec<PinEntry>, CliError> {
    let query = [("server", server_name), ("changed", "true")];
    let request = context.client.request(route::LIST_PINS, []);
    let mut pins = match request.query(query).send() {
        Ok(response) => decode(&response)?.pins,
        // Status 503 means that the sidecar has no store, and thus no blocked tools.
        Err(ClientError::Status { status: 503, .. }) => Vec::new(),
        Err(error) => return Err(error.into()),
    };
    let is_listed = |name: &str| {
        let mut tools = list.tools.iter();
        tools.any(|tool| tool.server_tool.as_deref() == Some(name))
    };
    let is_for_user = |pin: &PinEntry| pin.user.is_none() || pin.user.as_deref() == user;
    pins.retain(|pin| is_for_user(pin) && !is_listed(&pin.tool));
    Ok(pins)
}
