use std::process::ExitCode;

use pillion_wire::ServerResponse;
use pillion_wire::route::{self, Route};

use super::{ServerArgument, ServersContext};
use crate::dispatch::CommandResult;
use crate::output::{print, print_body, print_diagnostic};
use crate::sidecar::decode;
use pillion_gateway::pins::visible_line;

/// `pillion servers connect`
pub(super) fn connect(argument: &ServerArgument, context: &ServersContext) -> CommandResult {
    send(argument, context, route::CONNECT_SERVER)
}

/// `pillion servers disconnect`
pub(super) fn disconnect(argument: &ServerArgument, context: &ServersContext) -> CommandResult {
    send(argument, context, route::DISCONNECT_SERVER)
}

/// `pillion servers reconnect`
pub(super) fn reconnect(argument: &ServerArgument, context: &ServersContext) -> CommandResult {
    send(argument, context, route::RECONNECT_SERVER)
}

/// Sends a request for the server, and prints the server's status.
fn send(
    argument: &ServerArgument,
    context: &ServersContext,
    route: Route<ServerResponse, 1>,
) -> CommandResult {
    let id = context.find(&argument.name)?.id;
    let response = context.client.request(route, [&id]).send()?;
    let ServerResponse { server, .. } = decode(&response)?;
    if context.output.json {
        print_body(&response)?;
    } else {
        let (name, status) = (&server.name, &server.status);
        print(&visible_line(&format!("{name}: {status}")))?;
    }
    Ok(match server.error {
        Some(error) => {
            print_diagnostic(&error);
            ExitCode::FAILURE
        }
        None => ExitCode::SUCCESS,
    })
}
