use super::{ServerArgument, ServersContext};
use crate::dispatch::CommandResult;
use crate::output::{print_body, print_result};
use pillion_gateway::pins::visible_line;

/// `pillion servers remove`
pub(super) fn remove(argument: &ServerArgument, context: &ServersContext) -> CommandResult {
    let server = context.find_added(&argument.name)?;
    let body = context.client.raw().remove_server(&server.id)?;
    if context.output.json {
        return print_body(&body);
    }
    let name = visible_line(&server.name);
    print_result(&format!("{name}: removed, with its recorded calls"))
}
