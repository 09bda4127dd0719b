use std::process::ExitCode;

use pillion_wire::route;

use super::super::{CliError, print, print_json};
use super::Context;
use pillion_gateway::pins::visible_line;

/// `pillion servers remove`
pub(super) fn apply(context: &Context, name: &str) -> Result<ExitCode, CliError> {
    let server = context.find_added(name)?;
    let request = context.client.request(route::REMOVE_SERVER, [&server.id]);
    let response = request.send()?;
    if context.json {
        print_json(&response.text())?;
    } else {
        let name = visible_line(&server.name);
        print(&format!("{name}: removed, with its recorded calls"))?;
    }
    Ok(ExitCode::SUCCESS)
}
