use std::process::ExitCode;

use pillion_wire::{ServerEntry, route};

use super::super::table::table;
use super::super::{CliError, decode, print, print_json};
use super::Context;

/// `pillion servers list`
pub(super) fn apply(context: &Context) -> Result<ExitCode, CliError> {
    let response = context.client.request(route::LIST_SERVERS, []).send()?;
    if context.json {
        print_json(&response.text())?;
        return Ok(ExitCode::SUCCESS);
    }
    let list = decode(&response)?;
    let rows: Vec<_> = list.servers.iter().map(row).collect();
    let heads = [
        "NAME", "STATUS", "TOOLS", "CALLS", "FAILED", "ORIGIN", "ADDRESS", "ERROR",
    ];
    print(&table(&heads, &rows))?;
    Ok(ExitCode::SUCCESS)
}

fn row(server: &ServerEntry) -> [String; 8] {
    let status = if server.enabled {
        server.status.clone()
    } else {
        "disabled".to_owned()
    };
    let error = server.error.as_deref().unwrap_or_default();
    [
        server.name.clone(),
        status,
        server.tool_count.to_string(),
        server.calls.total.to_string(),
        server.calls.failed.to_string(),
        server.origin.clone(),
        address_of(server),
        error.lines().next().unwrap_or_default().to_owned(),
    ]
}

/// Returns the server's URL or program.
pub(super) fn address_of(server: &ServerEntry) -> String {
    let command = server.command.as_ref().map(|it| format!("program {it}"));
    command.or_else(|| server.url.clone()).unwrap_or_default()
}
