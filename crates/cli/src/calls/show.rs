use clap::Args;
use pillion_client::Client;
use pillion_wire::route;

use crate::dispatch::{CommandResult, RunCommand};
use crate::error::CliError;
use crate::output::print_pretty;
use crate::sidecar::decode;

/// Shows one call with its arguments and its result, as JSON
#[derive(Debug, Args)]
#[command(after_help = examples!["pillion calls show 01a20126-6441-7502-8f83-e6cc45d24570"])]
pub(crate) struct ShowCall {
    /// The call's ID
    id: String,
}

impl RunCommand<Client> for ShowCall {
    fn run(self, client: &Client) -> CommandResult {
        let response = client
            .request(route::SHOW_TOOL_CALL, [&self.id])
            .send()
            .map_err(|error| CliError::with_id(error, &self.id, "pillion calls list"))?;
        print_pretty(&decode(&response)?.call)
    }
}
