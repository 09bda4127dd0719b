use std::process::ExitCode;

use super::super::{CliError, print, print_json};
use super::Context;
use pillion_gateway::pins::visible_line;

/// `pillion servers remove`
pub(super) fn apply(context: &Context, name: &str) -> Result<ExitCode, CliError> {
    let server = context.find_added(name)?;
    let body = context.client.raw().remove_server(&server.id)?;
    if context.json {
        print_json(&String::from_utf8_lossy(&body))?;
    } else {
        let name = visible_line(&server.name);
        print(&format!("{name}: removed, with its recorded calls"))?;
    }
    Ok(ExitCode::SUCCESS)
}
