use std::process::ExitCode;

use clap::Args;
use pillion_client::{Caller, ClientError};
use pillion_wire::{PinEntry, ToolList, route};

use super::super::table::table;
use super::super::tools::warn_of_unavailable;
use super::super::{CliError, decode, print, print_diagnostic, print_json};
use super::Context;

/// `pillion servers tools`
#[derive(Debug, Args)]
pub(super) struct Tools {
    /// The server's name or ID
    server: String,
    /// The user whose tools are listed, if the server lists tools per user
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
}

impl Tools {
    pub(super) fn apply(self, context: &Context) -> Result<ExitCode, CliError> {
        list(context, &self.server, self.user.as_deref())
    }
}

fn list(context: &Context, name: &str, user: Option<&str>) -> Result<ExitCode, CliError> {
    let server = context.find(name)?;
    let caller = match user {
        Some(user) => Caller::default().user(user),
        None => Caller::default(),
    };
    let client = &context.client;
    let request = client.request(route::LIST_SERVER_TOOLS, [&server.id]);
    let response = request.caller(&caller).send()?;
    let list = decode(&response)?;
    if context.json {
        print_json(&response.text())?;
    } else {
        let rows: Vec<_> = list
            .tools
            .iter()
            .map(|tool| {
                let description = tool.description.lines().next().unwrap_or_default();
                [
                    tool.name.clone(),
                    tool.server_tool.clone().unwrap_or_default(),
                    description.to_owned(),
                ]
            })
            .collect();
        print(&table(&["NAME", "SERVER TOOL", "DESCRIPTION"], &rows))?;
    }
    warn_of_unavailable(&list.unavailable_servers);
    for PinEntry { tool, user, .. } in list_blocked(context, &server.name, user, &list)? {
        let user_option = user.map_or_else(String::new, |user| format!(" --user {user}"));
        print_diagnostic(&format!(
            "tool '{tool}' is blocked: the server changed, renamed or added it since its tools were accepted; \
            see `pillion pins diff {} {tool}{user_option}`",
            server.name
        ));
    }
    Ok(if list.unavailable_servers.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Returns the changed tools that are blocked and therefore not listed.
fn list_blocked(
    context: &Context,
    server: &str,
    user: Option<&str>,
    list: &ToolList,
) -> Result<Vec<PinEntry>, CliError> {
    let query = [("server", server.to_owned()), ("changed", true.to_string())];
    let mut pins = match context
        .client
        .request(route::LIST_PINS, [])
        .query(query)
        .send()
    {
        Ok(response) => decode(&response)?.pins,
        // A sidecar without a store blocks nothing.
        Err(ClientError::Status { status: 503, .. }) => Vec::new(),
        Err(error) => return Err(error.into()),
    };
    let is_listed = |name: &str| {
        let mut tools = list.tools.iter();
        tools.any(|tool| tool.server_tool.as_deref() == Some(name))
    };
    let is_theirs = |pin: &PinEntry| pin.user.is_none() || pin.user.as_deref() == user;
    pins.retain(|pin| is_theirs(pin) && !is_listed(&pin.tool));
    Ok(pins)
}
