use std::process::ExitCode;

use pillion_client::Caller;
use pillion_wire::ServerResponse;

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
        let raw = context.client.raw();
        let body = match self {
            Self::Connect => raw.connect_server(&id, &Caller::default()),
            Self::Disconnect => raw.disconnect_server(&id),
            Self::Reconnect => raw.reconnect_server(&id),
        }?;
        let ServerResponse { server, .. } = decode(&body)?;
        if context.json {
            print_json(&String::from_utf8_lossy(&body))?;
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
