use std::process::ExitCode;

use pillion_wire::ToolList;

use super::super::table::table;
use super::super::tools::warn_of;
use super::super::{CliError, decode, print};
use super::Context;

/// `pillion servers tools`
pub(super) fn apply(context: &Context, name: &str) -> Result<ExitCode, CliError> {
    let server = context.find(name)?;
    let body = context.client.raw().server_tools(&server.id)?;
    let list: ToolList = decode(&body)?;
    if context.json {
        print(&String::from_utf8_lossy(&body))?;
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
        print(&table(&["NAME", "THERE", "DESCRIPTION"], &rows))?;
    }
    warn_of(&list.unavailable_servers);
    Ok(if list.unavailable_servers.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
