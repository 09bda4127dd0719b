use std::process::ExitCode;

use super::super::{CliError, print};
use super::Context;

/// `pillion servers remove`
pub(super) fn apply(context: &Context, name: &str) -> Result<ExitCode, CliError> {
    let server = context.find(name)?;
    let body = context.client.raw().remove_server(&server.id)?;
    if context.json {
        print(&String::from_utf8_lossy(&body))?;
    } else {
        let name = server.name.replace(char::is_control, " ");
        print(&format!("{name}: removed, with its recorded calls"))?;
    }
    Ok(ExitCode::SUCCESS)
}
