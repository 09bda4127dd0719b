use std::process::ExitCode;

use clap::Args;
use pillion_wire::route;

use super::super::{CliError, decode, print, print_diagnostic, print_json};
use super::Context;
use super::server_options::ServerOptions;
use pillion_gateway::pins::visible_line;

/// `pillion servers test`
#[derive(Debug, Args)]
pub(super) struct Test {
    /// The server's name or ID; to test a server that is not added, give its options instead
    #[arg(value_name = "SERVER", conflicts_with_all = ["url", "command"])]
    server: Option<String>,
    #[command(flatten)]
    options: ServerOptions,
}

impl Test {
    pub(super) fn apply(self, context: &Context) -> Result<ExitCode, CliError> {
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
                request.send_json(&self.options.keys()?)?
            }
        };
        let trial = decode(&response)?;
        if context.json {
            print_json(&response.text())?;
        } else if trial.reachable {
            let server = trial.server.unwrap_or_else(|| "the server".to_owned());
            let server = visible_line(&server);
            let (tools, ms) = (trial.tools.len(), trial.duration_ms);
            print(&format!("{server} listed {tools} tools in {ms} ms"))?;
            for tool in &trial.tools {
                print(&format!("  {}", visible_line(tool)))?;
            }
        } else {
            print_diagnostic(&trial.error.unwrap_or_default());
        }
        Ok(if trial.reachable {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        })
    }
}
