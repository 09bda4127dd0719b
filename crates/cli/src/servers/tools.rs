use std::process::ExitCode;

use clap::Args;
use pillion_client::ClientError;
use pillion_wire::{PinEntry, ToolList, ToolSummary, route};

use super::ServersContext;
use crate::dispatch::{CommandResult, RunCommand};
use crate::error::CliError;
use crate::output::{print, print_body, print_diagnostic};
use crate::sidecar::{caller_for, decode};
use crate::table::{first_line, table};
use crate::tools::warn_about_unavailable_servers;

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
        let caller = caller_for(user);
        let client = &context.client;
        let request = client.request(route::LIST_SERVER_TOOLS, [&server.id]);
        let response = request.caller(&caller).send()?;
        let list = decode(&response)?;
        if context.output.json {
            print_body(&response)?;
        } else {
            let heads = ["NAME", "SERVER TOOL", "DESCRIPTION"];
            print(&table(heads, list.tools.iter().map(row)))?;
        }
        warn_about_unavailable_servers(&list.unavailable_servers);
        for PinEntry { tool, user, .. } in list_blocked(context, &server.name, user, &list)? {
            let user_option = user.map_or_else(String::new, |user| format!(" --user {user}"));
            print_diagnostic(&format!(
                "tool '{tool}' is blocked: the server changed, renamed or added it since its tools \
                were accepted; see `pillion pins diff {} {tool}{user_option}`",
                server.name
            ));
        }
        let is_unavailable = !list.unavailable_servers.is_empty();
        Ok(ExitCode::from(u8::from(is_unavailable)))
    }
}

fn row(tool: &ToolSummary) -> [String; 3] {
    [
        tool.name.clone(),
        tool.server_tool.clone().unwrap_or_default(),
        first_line(&tool.description),
    ]
}

/// Returns the changed tools that are blocked and therefore not listed.
fn list_blocked(
    context: &ServersContext,
    server: &str,
    user: Option<&str>,
    list: &ToolList,
) -> Result<Vec<PinEntry>, CliError> {
    let query = [("server", server.to_owned()), ("changed", true.to_string())];
    let request = context.client.request(route::LIST_PINS, []);
    let mut pins = match request.query(query).send() {
        Ok(response) => decode(&response)?.pins,
        // A sidecar without a store blocks nothing.
        Err(ClientError::Status { status: 503, .. }) => Vec::new(),
        Err(error) => return Err(error.into()),
    };
    let is_listed = |name: &str| {
        list.tools
            .iter()
            .any(|tool| tool.server_tool.as_deref() == Some(name))
    };
    let is_for_user = |pin: &PinEntry| pin.user.is_none() || pin.user.as_deref() == user;
    pins.retain(|pin| is_for_user(pin) && !is_listed(&pin.tool));
    Ok(pins)
}
