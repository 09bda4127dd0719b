use std::process::ExitCode;

use clap::Args;
use pillion_gateway::pins::visible_line;
use pillion_wire::ServerResponse;
use pillion_wire::route::{self, Route};

use super::server_options::ServerOptions;
use super::{ServerArgument, ServersContext};
use crate::dispatch::{CommandResult, RunCommand};
use crate::error::CliError;
use crate::output::{print, print_body, print_diagnostic};
use crate::sidecar::decode;

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

/// Tests a server by listing its tools; the server need not have been added
#[derive(Debug, Args)]
#[command(after_help = examples![
    "pillion servers test weather",
    "pillion servers test --url https://mcp.example.com/mcp",
])]
pub(super) struct TestServer {
    /// The server's name or ID; to test a server that is not added, give its options instead
    #[arg(value_name = "SERVER", conflicts_with_all = ["url", "command"])]
    server: Option<String>,
    #[command(flatten)]
    options: ServerOptions,
}

impl RunCommand<ServersContext> for TestServer {
    fn run(self, context: &ServersContext) -> CommandResult {
        let client = &context.client;
        let response = match self.server {
            Some(name) => {
                let id = context.find(&name)?.id;
                client.request(route::TEST_SERVER, [&id]).send()?
            }
            None if !self.options.has_address() => {
                return Err(CliError::Usage(
                    "no server is given: pass a name or --url".to_owned(),
                ));
            }
            None => {
                let request = client.request(route::TEST_NEW_SERVER, []);
                request.send_json(&self.options.to_request_keys()?)?
            }
        };
        let test_result = decode(&response)?;
        if context.output.json {
            print_body(&response)?;
        } else if test_result.reachable {
            let server = visible_line(test_result.server.as_deref().unwrap_or("the server"));
            let (tools, ms) = (test_result.tools.len(), test_result.duration_ms);
            print(&format!("{server} listed {tools} tools in {ms} ms"))?;
            for tool in &test_result.tools {
                print(&format!("  {}", visible_line(tool)))?;
            }
        } else {
            print_diagnostic(&test_result.error.unwrap_or_default());
        }
        Ok(ExitCode::from(u8::from(!test_result.reachable)))
    }
}
