use clap::Args;
use pillion_wire::{ServerEntry, route};

use super::ServersContext;
use crate::dispatch::{CommandResult, RunCommand};
use crate::table::{first_line, table};

/// Lists the servers and their status
#[derive(Debug, Args)]
#[command(after_help = examples!["pillion servers list", "pillion servers list --json"])]
pub(super) struct ListServers;

impl RunCommand<ServersContext> for ListServers {
    fn run(self, context: &ServersContext) -> CommandResult {
        let response = context.client.request(route::LIST_SERVERS, []).send()?;
        context.output.print(&response, |list| {
            let heads = [
                "NAME", "STATUS", "TOOLS", "CALLS", "FAILED", "ORIGIN", "ADDRESS", "ERROR",
            ];
            table(heads, list.servers.iter().map(row))
        })
    }
}

fn row(server: &ServerEntry) -> [String; 8] {
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
        address(server),
        first_line(server.error.as_deref().unwrap_or_default()),
    ]
}

/// Returns the server's URL or program.
pub(super) fn address(server: &ServerEntry) -> String {
    match &server.command {
        Some(program) => format!("program {program}"),
        None => server.url.clone().unwrap_or_default(),
    }
}
