use clap::Args;
use pillion_client::Client;
use pillion_wire::route;

use crate::dispatch::{CommandResult, RunCommand};
use crate::output::{print_body, print_pretty};
use crate::sidecar::decode;

/// Shows a call and its decision
#[derive(Debug, Args)]
#[command(after_help = examples!["pillion approvals show 01a200bf-11d2-7f4e-9d3e-6c4f0e1f2a3b"])]
pub(crate) struct ShowApproval {
    /// The approval's ID, or its first 8 or more characters if the approval is pending
    id: String,
    /// Prints the sidecar's response as one line of JSON
    #[arg(long)]
    json: bool,
}

impl RunCommand<Client> for ShowApproval {
    fn run(self, client: &Client) -> CommandResult {
        let id = super::full_id(client, self.id)?;
        let response = client
            .request(route::SHOW_APPROVAL, [&id])
            .send()
            .map_err(|error| super::unknown_id(error, &id))?;
        if self.json {
            return print_body(&response);
        }
        print_pretty(&decode(&response)?.approval)
    }
}
