use pillion_wire::route;

use super::{ServerArgument, ServersContext};
use crate::dispatch::CommandResult;
use crate::output::{print_body, print_result};
use pillion_gateway::pins::visible_line;

/// `pillion servers remove`
pub(super) fn remove(argument: &ServerArgument, context: &ServersContext) -> CommandResult {
    let server = context.find_added(&argument.name)?;
    let request = context.client.request(route::REMOVE_SERVER, [&server.id]);
    let response = request.send()?;
    if context.output.json {
        return print_body(&response);
    }
    let name = visible_line(&server.name);
    print_result(&format!("{name}: removed, with its recorded calls"))
}
