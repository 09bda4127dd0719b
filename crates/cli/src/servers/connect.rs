use std::process::ExitCode;

use pillion_wire::{ServerResponse, route};

use super::super::{CliError, decode, print, print_diagnostic, print_json};
use super::Context;
use pillion_gateway::pins::visible_line;

/// What `pillion servers connect`, `disconnect` and `reconnect` do with a server.
#[derive(Debug, Clone, Copy)]
pub(super) enum Connection {
    Connect,
    Disconnect,
    Reconnect,
}

impl Connection {
    pub(super) fn apply(self, context: &Context, name: &str) -> Result<ExitCode, CliError> {
        let id = context.find(name)?.id;
        let route = match self {
            Self::Connect => route::CONNECT_SERVER,
            Self::Disconnect => route::DISCONNECT_SERVER,
            Self::Reconnect => route::RECONNECT_SERVER,
        };
        let response = context.client.request(route, [&id]).send()?;
        let ServerResponse { server, .. } = decode(&response)?;
        if context.json {
            print_json(&response.text())?;
        } else {
            print(&visible_line(&format!(
                "{}: {}",
                server.name, server.status
            )))?;
        }
        match server.error {
            Some(error) => {
                print_diagnostic(&error);
                Ok(ExitCode::FAILURE)
            }
            None => Ok(ExitCode::SUCCESS),
        }
    }
}
