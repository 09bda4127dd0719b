use std::process::ExitCode;

use pillion_client::{Caller, Client, ClientError};
use pillion_wire::ServerResponse;

use super::{ServerArgument, ServersContext};
use crate::dispatch::CommandResult;
use crate::output::{print, print_body, print_diagnostic};
use crate::sidecar::decode;
use pillion_gateway::pins::visible_line;

/// `pillion servers connect`
pub(super) fn connect(argument: &ServerArgument, context: &ServersContext) -> CommandResult {
    send(argument, context, |client, id| {
        client.raw().connect_server(id, &Caller::default())
    })
}

/// `pillion servers disconnect`
pub(super) fn disconnect(argument: &ServerArgument, context: &ServersContext) -> CommandResult {
    send(argument, context, |client, id| {
        client.raw().disconnect_server(id)
    })
}

/// `pillion servers reconnect`
pub(super) fn reconnect(argument: &ServerArgument, context: &ServersContext) -> CommandResult {
    send(argument, context, |client, id| {
        client.raw().reconnect_server(id)
    })
}

/// Sends the request for a server's ID, and prints the server's status.
fn send(
    argument: &ServerArgument,
    context: &ServersContext,
    request: impl FnOnce(&Client, &str) -> Result<Vec<u8>, ClientError>,
) -> CommandResult {
    let id = context.find(&argument.name)?.id;
    let body = request(&context.client, &id)?;
    let ServerResponse { server, .. } = decode(&body)?;
    if context.output.json {
        print_body(&body)?;
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
